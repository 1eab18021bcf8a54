//! arm64, which libvirt calls aarch64: the virt machine types.

use kubevirt_api::vmi::{self, Vmi, WatchdogAction};

use crate::convert::arch::guest_protection::Protection;
use crate::convert::arch::{
    Architecture, FirmwareImage, hypervisor_features, ovmf, pci_virtio_model,
};
use crate::convert::error::ConvertError;
use crate::host_facts::HostFacts;
use crate::kubevirt_version::Behaviour;
use crate::libvirt_spec::{Features, Input, LaunchSecurity, Timer, VideoModel};

/// UEFI firmware without secure boot. KubeVirt has no other for arm64; with secure boot, libvirt chooses.
const AAVMF: FirmwareImage = FirmwareImage {
    code: "AAVMF_CODE.fd",
    variables: "AAVMF_VARS.fd",
};
/// The slots that KubeVirt leaves free on every architecture; the virt machines have nothing there.
const OCCUPIED_ROOT_SLOTS: [u32; 3] = [0x01, 0x1b, 0x1f];

/// The architecture arm64.
pub(crate) struct Arm64;

impl Architecture for Arm64 {
    fn name(&self) -> &'static str {
        "arm64"
    }

    fn libvirt_name(&self) -> &'static str {
        "aarch64"
    }

    fn default_machine(&self) -> &'static str {
        "virt"
    }

    fn has_pcie(&self, machine: Option<&str>) -> bool {
        machine.is_none_or(|machine| machine.starts_with("virt"))
    }

    fn can_place_on_pcie(&self) -> bool {
        true
    }

    fn has_numa(&self) -> bool {
        true
    }

    fn has_smbios(&self) -> bool {
        true
    }

    fn uefi_image(
        &self,
        secure_boot: bool,
        protection: Protection,
        host: &HostFacts,
    ) -> Result<FirmwareImage, ConvertError> {
        let is_installed = host.firmware_files.as_ref().is_none_or(|files| {
            let has = |name: &str| files.iter().any(|file| file == name);
            has(AAVMF.code) && has(AAVMF.variables)
        });
        match is_installed && !secure_boot {
            true => Ok(AAVMF),
            false => Err(ovmf::missing(secure_boot, protection)),
        }
    }

    /// Firmware with secure boot has its variables in QEMU's memory (`<varstore>`), which libvirt adds itself.
    fn has_nvram_with_chosen_firmware(&self) -> bool {
        false
    }

    fn firmware_log_device(&self) -> Option<&'static str> {
        None
    }

    /// KVM has no CPU models on arm64.
    fn default_cpu_mode(&self) -> &'static str {
        "host-passthrough"
    }

    fn obsolete_cpu_features(&self) -> &'static [&'static str] {
        &[]
    }

    fn can_hotplug_cpus(&self) -> bool {
        false
    }

    fn has_dedicated_cpu_hint(&self) -> bool {
        false
    }

    fn features(&self, requested: &vmi::Features, protection: Protection) -> Features {
        hypervisor_features::features(requested, protection)
    }

    fn extra_timers(&self, _vmi: &Vmi) -> Vec<Timer> {
        Vec::new()
    }

    fn protection(&self, _requested: &vmi::LaunchSecurity) -> Result<Protection, ConvertError> {
        Err(ConvertError::invalid(
            "spec.domain.launchSecurity: guests of arm64 have none; remove it, or run the VM on a node of another \
             architecture",
        ))
    }

    fn launch_security(
        &self,
        _vmi: &Vmi,
        _behaviour: Behaviour,
    ) -> Result<Option<LaunchSecurity>, ConvertError> {
        Ok(None)
    }

    fn virtio_model(&self, is_transitional: bool) -> &'static str {
        pci_virtio_model(is_transitional)
    }

    fn scsi_controller(&self, virtio_model: &'static str) -> &'static str {
        virtio_model
    }

    fn usb_controller(&self) -> &'static str {
        "qemu-xhci"
    }

    /// Tablet and keyboard of a display are USB devices.
    fn needs_usb(&self, _has_usb_devices: bool) -> bool {
        true
    }

    fn hole64_controller(&self) -> Option<&'static str> {
        None
    }

    fn has_option_rom(&self) -> bool {
        true
    }

    fn max_custom_block_size(&self, _behaviour: Behaviour) -> Option<u64> {
        None
    }

    /// The machine has neither mouse nor keyboard of its own.
    fn extra_inputs(&self, has_tablet: bool) -> Vec<Input> {
        let input = |kind: &str| Input {
            kind: kind.into(),
            bus: "usb".into(),
            ..Input::default()
        };
        let tablet = (!has_tablet).then(|| input("tablet"));
        tablet.into_iter().chain([input("keyboard")]).collect()
    }

    fn default_video(&self, _prefers_bochs: bool) -> VideoModel {
        VideoModel {
            kind: "virtio".into(),
            ..VideoModel::default()
        }
    }

    fn sound_models(&self) -> &'static [&'static str] {
        &[]
    }

    fn watchdog<'a>(
        &self,
        _requested: &'a vmi::Watchdog,
    ) -> Result<Option<(&'static str, &'a WatchdogAction)>, ConvertError> {
        Err(ConvertError::invalid(
            "watchdog is not supported on architecture ARM64",
        ))
    }

    fn claimed_mdev_model(&self) -> &'static str {
        "vfio-pci"
    }

    fn tpm_model(&self, is_persistent: bool) -> &'static str {
        match is_persistent {
            true => "tpm-crb",
            false => "tpm-tis",
        }
    }

    fn occupied_root_slots(&self) -> &'static [u32] {
        &OCCUPIED_ROOT_SLOTS
    }

    fn can_have_smmuv3(&self) -> bool {
        true
    }
}
