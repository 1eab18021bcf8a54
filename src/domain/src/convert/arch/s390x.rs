//! s390x: the s390-ccw-virtio machine types, whose virtio devices are on IBM's channel subsystem.

use kubevirt_api::vmi::{self, Vmi, WatchdogAction};

use crate::convert::arch::guest_protection::Protection;
use crate::convert::arch::{Architecture, FirmwareImage, hypervisor_features, ovmf};
use crate::convert::error::ConvertError;
use crate::host_facts::HostFacts;
use crate::kubevirt_version::Behaviour;
use crate::libvirt_spec::{Features, Input, LaunchSecurity, Timer, VideoModel};

/// The size of a page, which is the largest block that the guest's virtio driver accepts.
const MAX_BLOCK_SIZE: u64 = 4096;

/// The architecture s390x.
pub(crate) struct S390x;

impl Architecture for S390x {
    fn name(&self) -> &'static str {
        "s390x"
    }

    fn libvirt_name(&self) -> &'static str {
        "s390x"
    }

    fn default_machine(&self) -> &'static str {
        "s390-ccw-virtio"
    }

    fn has_pcie(&self, _machine: Option<&str>) -> bool {
        false
    }

    fn can_place_on_pcie(&self) -> bool {
        false
    }

    fn has_numa(&self) -> bool {
        false
    }

    fn has_smbios(&self) -> bool {
        false
    }

    /// KubeVirt looks for OVMF here too, and finds none: s390x boots without UEFI.
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
        None
    }

    fn default_cpu_mode(&self) -> &'static str {
        "host-model"
    }

    fn obsolete_cpu_features(&self) -> &'static [&'static str] {
        &[]
    }

    fn can_hotplug_cpus(&self) -> bool {
        true
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

    /// Secure Execution, whatever the VMI names.
    fn protection(&self, _requested: &vmi::LaunchSecurity) -> Result<Protection, ConvertError> {
        Ok(Protection::SecureExecution)
    }

    /// The guest's image decides to run protected. libvirt's `s390-pv` needs more of the host than a pod has, and sets
    /// no more than `iommu='on'` for each device, which the conversion does itself.
    fn launch_security(
        &self,
        _vmi: &Vmi,
        _behaviour: Behaviour,
    ) -> Result<Option<LaunchSecurity>, ConvertError> {
        Ok(None)
    }

    /// libvirt chooses between channel and PCI devices.
    fn virtio_model(&self, _is_transitional: bool) -> &'static str {
        "virtio"
    }

    fn scsi_controller(&self, _virtio_model: &'static str) -> &'static str {
        "virtio-scsi"
    }

    fn usb_controller(&self) -> &'static str {
        "none"
    }

    fn needs_usb(&self, _has_usb_devices: bool) -> bool {
        false
    }

    fn hole64_controller(&self) -> Option<&'static str> {
        None
    }

    fn has_option_rom(&self) -> bool {
        false
    }

    fn max_custom_block_size(&self, behaviour: Behaviour) -> Option<u64> {
        behaviour
            .limits_custom_block_sizes
            .then_some(MAX_BLOCK_SIZE)
    }

    /// The machine has no keyboard of its own.
    fn extra_inputs(&self, _has_tablet: bool) -> Vec<Input> {
        vec![Input {
            kind: "keyboard".into(),
            bus: "virtio".into(),
            ..Input::default()
        }]
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
        requested: &'a vmi::Watchdog,
    ) -> Result<Option<(&'static str, &'a WatchdogAction)>, ConvertError> {
        Ok(requested.diag288.as_ref().map(|action| ("diag288", action)))
    }

    /// Cryptographic adapters.
    fn claimed_mdev_model(&self) -> &'static str {
        "vfio-ap"
    }

    fn tpm_model(&self, is_persistent: bool) -> &'static str {
        match is_persistent {
            true => "tpm-crb",
            false => "tpm-tis",
        }
    }

    fn occupied_root_slots(&self) -> &'static [u32] {
        &[]
    }

    fn can_have_smmuv3(&self) -> bool {
        false
    }
}
