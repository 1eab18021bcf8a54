//! amd64, which libvirt calls x86_64: the q35 and pc machine types.

mod launch_security;
mod tsc;

use kubevirt_api::vmi::{self, Vmi, WatchdogAction};

use crate::convert::arch::guest_protection::Protection;
use crate::convert::arch::{
    Architecture, FirmwareImage, hypervisor_features, ovmf, pci_virtio_model,
};
use crate::convert::error::ConvertError;
use crate::host_facts::HostFacts;
use crate::kubevirt_version::Behaviour;
use crate::libvirt_spec::{Features, Input, LaunchSecurity, Timer, VideoModel};

/// VGA memory in KiB.
const VGA_MEMORY_KIB: u64 = 16_384;
/// The slots of VGA, ich9 sound and ich9 SATA.
const OCCUPIED_ROOT_SLOTS: [u32; 3] = [0x01, 0x1b, 0x1f];

/// The architecture amd64.
pub(crate) struct Amd64;

impl Architecture for Amd64 {
    fn name(&self) -> &'static str {
        "amd64"
    }

    fn libvirt_name(&self) -> &'static str {
        "x86_64"
    }

    fn default_machine(&self) -> &'static str {
        "q35"
    }

    fn has_pcie(&self, machine: Option<&str>) -> bool {
        machine.is_none_or(|machine| machine.contains("q35"))
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
        ovmf::image(secure_boot, protection, host)
    }

    fn has_nvram_with_chosen_firmware(&self) -> bool {
        true
    }

    fn firmware_log_device(&self) -> Option<&'static str> {
        Some("isa-debugcon,iobase=0x402")
    }

    fn default_cpu_mode(&self) -> &'static str {
        "host-model"
    }

    fn obsolete_cpu_features(&self) -> &'static [&'static str] {
        &["mpx"]
    }

    fn can_hotplug_cpus(&self) -> bool {
        true
    }

    fn has_dedicated_cpu_hint(&self) -> bool {
        true
    }

    fn features(&self, requested: &vmi::Features, protection: Protection) -> Features {
        Features {
            vmport: Some(hypervisor_features::state(false)),
            ..hypervisor_features::features(requested, protection)
        }
    }

    fn extra_timers(&self, vmi: &Vmi) -> Vec<Timer> {
        tsc::timer(vmi).into_iter().collect()
    }

    fn protection(&self, security: &vmi::LaunchSecurity) -> Result<Protection, ConvertError> {
        Ok(Protection::of_processor(security))
    }

    fn launch_security(
        &self,
        vmi: &Vmi,
        behaviour: Behaviour,
    ) -> Result<Option<LaunchSecurity>, ConvertError> {
        launch_security::launch_security(vmi, behaviour)
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

    fn needs_usb(&self, has_usb_devices: bool) -> bool {
        has_usb_devices
    }

    fn hole64_controller(&self) -> Option<&'static str> {
        Some("pcie-root")
    }

    fn has_option_rom(&self) -> bool {
        true
    }

    fn max_custom_block_size(&self, _behaviour: Behaviour) -> Option<u64> {
        None
    }

    fn extra_inputs(&self, _has_tablet: bool) -> Vec<Input> {
        Vec::new()
    }

    fn default_video(&self, prefers_bochs: bool) -> VideoModel {
        let (kind, vram) = match prefers_bochs {
            true => ("bochs", None),
            false => ("vga", Some(VGA_MEMORY_KIB)),
        };
        VideoModel {
            kind: kind.into(),
            vram,
            ..VideoModel::default()
        }
    }

    fn sound_models(&self) -> &'static [&'static str] {
        &["ich9", "ac97"]
    }

    fn watchdog<'a>(
        &self,
        requested: &'a vmi::Watchdog,
    ) -> Result<Option<(&'static str, &'a WatchdogAction)>, ConvertError> {
        Ok(requested
            .i6300esb
            .as_ref()
            .map(|action| ("i6300esb", action)))
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
        false
    }
}
