//! Differences between the architectures of guests. Only the modules below depend on a specific architecture.

pub(crate) mod amd64;
pub(crate) mod guest_protection;

use guest_protection::Protection;
use kubevirt_api::vmi::{self, Vmi};

use crate::convert::error::ConvertError;
use crate::host_facts::HostFacts;
use crate::libvirt_spec::{Features, LaunchSecurity, Timer, VideoModel};

/// File names of an image of firmware code, and of the template of its variable store.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FirmwareImage {
    pub(crate) code: &'static str,
    pub(crate) variables: &'static str,
}

/// An architecture that guests can have.
pub(crate) trait Architecture: Sync {
    /// libvirt's name of the architecture.
    fn libvirt_name(&self) -> &'static str;

    /// The machine type of a VMI without one.
    fn default_machine(&self) -> &'static str;

    /// Whether the guest gets SMBIOS tables.
    fn has_smbios(&self) -> bool;

    /// The UEFI image, chosen among the files in the firmware directory if they are known.
    fn uefi_image(
        &self,
        secure_boot: bool,
        protection: Protection,
        installed: Option<&[String]>,
    ) -> Result<FirmwareImage, ConvertError>;

    /// The QEMU device, without its backend, to which the firmware writes its log.
    fn firmware_log_device(&self) -> Option<&'static str>;

    /// The CPU mode of a VMI without a CPU model.
    fn default_cpu_mode(&self) -> &'static str;

    /// CPU features that libvirt's model descriptions contain and newer CPUs lack.
    fn obsolete_cpu_features(&self) -> &'static [&'static str];

    /// Whether guests can get the hint that their CPUs are dedicated.
    fn has_dedicated_cpu_hint(&self) -> bool;

    /// The hypervisor features for those that the VMI requests.
    fn features(&self, requested: &vmi::Features, protection: Protection) -> Features;

    /// Additional timers that the VMI does not list.
    fn extra_timers(&self, vmi: &Vmi) -> Vec<Timer>;

    /// Protection of the guest from its host, if the VMI requests it.
    fn launch_security(&self, vmi: &Vmi) -> Result<Option<LaunchSecurity>, ConvertError>;

    /// libvirt's model of virtio devices.
    fn virtio_model(&self, is_transitional: bool) -> &'static str;

    /// The USB controller's model.
    fn usb_controller(&self) -> &'static str;

    /// The video card of a VMI without one. `prefers_bochs` is the cluster's setting for UEFI guests.
    fn default_video(&self, prefers_bochs: bool) -> VideoModel;

    /// Models of sound cards; the first is the default.
    fn sound_models(&self) -> &'static [&'static str];

    /// The TPM's model.
    fn tpm_model(&self, is_persistent: bool) -> &'static str;

    /// Slots on the root complex that built-in devices occupy.
    fn occupied_root_slots(&self) -> &'static [u32];

    /// Whether hosts can have SMMUv3, Arm's IOMMU.
    fn can_have_smmuv3(&self) -> bool;
}

/// Whether a machine type of any architecture has PCI Express; true without a machine type, since libvirt's default has
/// it.
pub(crate) fn has_pcie(machine: Option<&str>) -> bool {
    machine.is_none_or(|machine| machine.contains("q35") || machine.starts_with("virt"))
}

/// The guest's architecture, which is the node's unless the VMI names another.
pub(crate) fn guest_architecture(
    vmi: &Vmi,
    host: &HostFacts,
) -> Result<&'static dyn Architecture, ConvertError> {
    let guest = match vmi.spec.architecture.as_str() {
        "" => &host.architecture,
        guest => guest,
    };
    match (guest, host.architecture.as_str()) {
        ("amd64", "amd64") => Ok(&amd64::Amd64),
        (guest, host) => Err(ConvertError::unsupported(format!(
            "spec.architecture {guest} on {host}"
        ))),
    }
}
