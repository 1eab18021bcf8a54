//! Differences between the architectures of guests. Only the modules below depend on a specific architecture.

pub(crate) mod amd64;
pub(crate) mod arm64;
pub(crate) mod guest_protection;
mod hypervisor_features;
mod ovmf;
pub(crate) mod s390x;

use guest_protection::Protection;
use kubevirt_api::vmi::{self, Vmi, WatchdogAction};

use crate::convert::error::ConvertError;
use crate::host_facts::HostFacts;
use crate::kubevirt_version::Behaviour;
use crate::libvirt_spec::{Features, Input, LaunchSecurity, Timer, VideoModel};
pub use ovmf::SEV_FIRMWARE;
pub(crate) use ovmf::missing as missing_firmware;

/// The supported architectures. A new one is a module and an element here.
const ARCHITECTURES: [&dyn Architecture; 3] = [&amd64::Amd64, &arm64::Arm64, &s390x::S390x];

/// File names of an image of firmware code, and of the template of its variable store.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FirmwareImage {
    pub(crate) code: &'static str,
    pub(crate) variables: &'static str,
}

/// An architecture that guests can have.
pub(crate) trait Architecture: Sync {
    /// Kubernetes' name of the architecture, which is Go's.
    fn name(&self) -> &'static str;

    /// libvirt's name of the architecture.
    fn libvirt_name(&self) -> &'static str;

    /// The machine type of a VMI without one.
    fn default_machine(&self) -> &'static str;

    /// Whether the machine type has PCI Express, and with it root ports for hotplug. Without a machine type the answer
    /// is that for the default machine.
    fn has_pcie(&self, machine: Option<&str>) -> bool;

    /// Whether devices can be placed on root complexes and expander buses. As in KubeVirt, this does not depend on the
    /// machine type.
    fn can_place_on_pcie(&self) -> bool;

    /// Whether guests can have NUMA cells.
    fn has_numa(&self) -> bool;

    /// Whether the guest gets SMBIOS tables.
    fn has_smbios(&self) -> bool;

    /// The UEFI image, chosen among the files in the host's firmware directory if they are known.
    fn uefi_image(
        &self,
        secure_boot: bool,
        protection: Protection,
        host: &HostFacts,
    ) -> Result<FirmwareImage, ConvertError>;

    /// Whether the firmware that libvirt chooses has its variables in a file (`<nvram>`).
    fn has_nvram_with_chosen_firmware(&self) -> bool;

    /// The QEMU device, without its backend, to which the firmware writes its log.
    fn firmware_log_device(&self) -> Option<&'static str>;

    /// The CPU mode of a VMI without a CPU model.
    fn default_cpu_mode(&self) -> &'static str;

    /// CPU features that libvirt's model descriptions contain and newer CPUs lack.
    fn obsolete_cpu_features(&self) -> &'static [&'static str];

    /// Whether vCPUs can be hotplugged.
    fn can_hotplug_cpus(&self) -> bool;

    /// Whether guests can get the hint that their CPUs are dedicated.
    fn has_dedicated_cpu_hint(&self) -> bool;

    /// The hypervisor features for those that the VMI requests.
    fn features(&self, requested: &vmi::Features, protection: Protection) -> Features;

    /// Additional timers that the VMI does not list.
    fn extra_timers(&self, vmi: &Vmi) -> Vec<Timer>;

    /// The technology that protects the guest from its host, for what the VMI requests.
    ///
    /// # Errors
    /// [`ConvertError`] if the architecture has none: the guest must not run without what its owner relies on.
    fn protection(&self, requested: &vmi::LaunchSecurity) -> Result<Protection, ConvertError>;

    /// The element with the protection of the guest from its host, if the VMI requests it.
    fn launch_security(
        &self,
        vmi: &Vmi,
        behaviour: Behaviour,
    ) -> Result<Option<LaunchSecurity>, ConvertError>;

    /// libvirt's model of virtio devices.
    fn virtio_model(&self, is_transitional: bool) -> &'static str;

    /// The SCSI controller's model, for a guest with this model of virtio devices.
    fn scsi_controller(&self, virtio_model: &'static str) -> &'static str;

    /// The USB controller's model.
    fn usb_controller(&self) -> &'static str;

    /// Whether the guest gets a USB controller. `has_usb_devices` is whether the VMI has devices for it.
    fn needs_usb(&self, has_usb_devices: bool) -> bool;

    /// The model of the PCI controller whose 64-bit hole a VMI can disable.
    fn hole64_controller(&self) -> Option<&'static str>;

    /// Whether network devices have an option ROM, which can be disabled.
    fn has_option_rom(&self) -> bool;

    /// The maximum of the block sizes that a VMI gives to a disk, in bytes.
    fn max_custom_block_size(&self, behaviour: Behaviour) -> Option<u64>;

    /// Input devices that a guest with a display gets in addition to those of the VMI. `has_tablet` is whether the VMI
    /// has a tablet.
    fn extra_inputs(&self, has_tablet: bool) -> Vec<Input>;

    /// The video card of a VMI without one. `prefers_bochs` is the cluster's setting for UEFI guests.
    fn default_video(&self, prefers_bochs: bool) -> VideoModel;

    /// Models of sound cards; the first is the default. Empty if the architecture has none.
    fn sound_models(&self) -> &'static [&'static str];

    /// The model of this architecture's watchdog and its action; `None` if the VMI names only other models.
    ///
    /// # Errors
    /// [`ConvertError`] if the architecture has no watchdog.
    fn watchdog<'a>(
        &self,
        requested: &'a vmi::Watchdog,
    ) -> Result<Option<(&'static str, &'a WatchdogAction)>, ConvertError>;

    /// The model of a mediated device that the VMI requests as a host device through a resource claim.
    fn claimed_mdev_model(&self) -> &'static str;

    /// The TPM's model.
    fn tpm_model(&self, is_persistent: bool) -> &'static str;

    /// Slots on the root complex that built-in devices occupy.
    fn occupied_root_slots(&self) -> &'static [u32];

    /// Whether hosts can have SMMUv3, Arm's IOMMU.
    fn can_have_smmuv3(&self) -> bool;
}

/// libvirt's model of virtio devices on a PCI bus.
pub(crate) fn pci_virtio_model(is_transitional: bool) -> &'static str {
    if is_transitional {
        "virtio-transitional"
    } else {
        "virtio-non-transitional"
    }
}

/// The names of all supported architectures, which are Kubernetes' and Go's.
pub fn architecture_names() -> [&'static str; ARCHITECTURES.len()] {
    ARCHITECTURES.map(Architecture::name)
}

/// The guest's architecture, which is the node's unless the VMI names another, which the node may emulate.
pub(crate) fn guest_architecture(
    vmi: &Vmi,
    facts: &HostFacts,
) -> Result<&'static dyn Architecture, ConvertError> {
    let host = facts.architecture.as_str();
    let guest = match vmi.spec.architecture.as_str() {
        "" => host,
        guest => guest,
    };
    let known = ARCHITECTURES
        .into_iter()
        .find(|architecture| architecture.name() == guest);
    match known {
        Some(architecture) if guest == host || facts.allow_cross_arch_emulation => Ok(architecture),
        Some(_) => Err(ConvertError::invalid(format!(
            "spec.architecture is {guest}, and the node is {host}: the launcher emulates other architectures only with \
             --allow-cross-arch-emulation, KubeVirt's feature gate CrossArchitectureVirtualization"
        ))),
        None => Err(ConvertError::invalid(format!(
            "spec.architecture is {guest:?}; the launcher runs guests of {}",
            architecture_names().join(", ")
        ))),
    }
}

/// The architecture of a domain by libvirt's name for it. As in KubeVirt, a missing or unknown architecture is treated
/// as amd64.
pub(crate) fn domain_architecture(libvirt_name: Option<&str>) -> &'static dyn Architecture {
    ARCHITECTURES
        .into_iter()
        .find(|architecture| Some(architecture.libvirt_name()) == libvirt_name)
        .unwrap_or(&amd64::Amd64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_found_by_their_names() {
        for architecture in ARCHITECTURES {
            let found = domain_architecture(Some(architecture.libvirt_name()));
            assert_eq!(found.name(), architecture.name());
        }
        for unknown in [None, Some("riscv64")] {
            assert_eq!(domain_architecture(unknown).name(), "amd64");
        }
    }

    #[test]
    fn default_machines_have_pcie_if_devices_can_be_placed_on_it() {
        for architecture in ARCHITECTURES {
            let machine = architecture.default_machine();
            let has_pcie = architecture.has_pcie(Some(machine));
            assert_eq!(has_pcie, architecture.can_place_on_pcie(), "{machine}");
            assert_eq!(has_pcie, architecture.has_pcie(None), "{machine}");
        }
    }
}
