//! What differs between the architectures of guests. Only the modules below know one of them.

pub(crate) mod amd64;
pub(crate) mod guest_protection;

use guest_protection::Protection;
use kubevirt_api::vmi::{self, Vmi};

use crate::convert::error::ConvertError;
use crate::host_facts::HostFacts;
use crate::libvirt_spec::{Features, LaunchSecurity, Timer, VideoModel};

/// An image of firmware code, and the template of its variables.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FirmwareImage {
    pub(crate) code: &'static str,
    pub(crate) variables: &'static str,
}

/// An architecture that guests can have.
pub(crate) trait Architecture: Sync {
    /// libvirt's name of the architecture.
    fn libvirt_name(&self) -> &'static str;

    /// The machine type of a VMI that names none.
    fn default_machine(&self) -> &'static str;

    /// Whether the firmware shows SMBIOS tables to the guest.
    fn has_smbios(&self) -> bool;

    /// The UEFI image, chosen from the files in the firmware directory if they are known.
    fn uefi_image(
        &self,
        secure_boot: bool,
        protection: Protection,
        installed: Option<&[String]>,
    ) -> Result<FirmwareImage, ConvertError>;

    /// The QEMU device, without its backend, to which the firmware writes its log.
    fn firmware_log_device(&self) -> Option<&'static str>;

    /// The CPU mode of a VMI that names no model.
    fn default_cpu_mode(&self) -> &'static str;

    /// CPU features that libvirt's model descriptions list and newer processors lack.
    fn obsolete_cpu_features(&self) -> &'static [&'static str];

    /// Whether guests take the hint that their processors are dedicated.
    fn has_dedicated_cpu_hint(&self) -> bool;

    /// Features of the hypervisor, from the VMI's.
    fn features(&self, requested: &vmi::Features, protection: Protection) -> Features;

    /// Timers beside those that the VMI lists.
    fn extra_timers(&self, vmi: &Vmi) -> Vec<Timer>;

    /// Protection of the guest from its host, if the VMI asks for it.
    fn launch_security(&self, vmi: &Vmi) -> Result<Option<LaunchSecurity>, ConvertError>;

    /// libvirt's model of virtio devices.
    fn virtio_model(&self, is_transitional: bool) -> &'static str;

    /// The USB controller's model.
    fn usb_controller(&self) -> &'static str;

    /// The video card of a VMI that names none. `prefers_bochs` is the cluster's setting for UEFI guests.
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

/// Whether a machine of any architecture has PCI Express, which is what libvirt chooses for a domain without a machine.
pub(crate) fn has_pcie(machine: Option<&str>) -> bool {
    machine.is_none_or(|machine| machine.contains("q35") || machine.starts_with("virt"))
}

/// The guest's architecture, which is the node's unless the VMI names another.
pub(crate) fn of(vmi: &Vmi, host: &HostFacts) -> Result<&'static dyn Architecture, ConvertError> {
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
