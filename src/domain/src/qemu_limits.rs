//! Changes what KubeVirt's conversion writes and libvirt or QEMU refuse, so that the VM starts.

use std::fmt;

use crate::convert::arch;
use crate::libvirt_spec::DomainSpec;

const ON: &str = "on";
const MEMFD: &str = "memfd";

/// What was changed in a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Correction {
    /// A host device with `ramfb` shows the firmware's display until the guest's driver takes over. QEMU has one, which
    /// is left to the first display; these devices show nothing before the guest's driver runs.
    OneRamfb {
        /// Aliases of the devices.
        taken_from: Vec<String>,
    },
    /// Memory in a memfd needs a NUMA cell, and machines of this architecture have no NUMA. Up to v1.9 KubeVirt's pods
    /// have no mount of huge pages for libvirt, so that memory that asks for them may not be in huge pages.
    NoMemfd,
    /// The model of the vsock device is a PCI device's, and machines of this architecture have other virtio devices.
    VsockWithoutPci,
}

impl fmt::Display for Correction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneRamfb { taken_from } => write!(
                formatter,
                "the displays {} show nothing before the guest's driver runs: a VM has one ramfb, the first display's",
                taken_from.join(", ")
            ),
            Self::NoMemfd => formatter.write_str(
                "the memory is in no memfd, which would need NUMA, and the machine has none; on KubeVirt v1.8 and v1.9 it \
                 may not be in huge pages either",
            ),
            Self::VsockWithoutPci => {
                formatter.write_str("the vsock device is no PCI device: the machine's virtio devices are not")
            }
        }
    }
}

/// Changes a converted domain, and returns what was changed.
pub fn correct(spec: &mut DomainSpec) -> Vec<Correction> {
    let architecture = arch::domain_architecture(Some(&spec.os.kind.arch));
    let corrections = [
        keep_one_ramfb(spec),
        (!architecture.has_numa())
            .then(|| leave_memfd_out(spec))
            .flatten(),
        set_vsock_model(spec, architecture.virtio_model(false)),
    ];
    corrections.into_iter().flatten().collect()
}

fn keep_one_ramfb(spec: &mut DomainSpec) -> Option<Correction> {
    let devices = spec.devices.host_devices.iter_mut();
    let others = devices.filter(|device| device.ramfb == ON).skip(1);
    let taken_from: Vec<String> = others
        .map(|device| {
            device.ramfb.clear();
            let alias = device.alias.as_ref();
            alias.map_or_else(String::new, |alias| alias.name.clone())
        })
        .collect();
    (!taken_from.is_empty()).then_some(Correction::OneRamfb { taken_from })
}

/// Leaves out the memfd and the NUMA cell that only the memfd needs. Cells that the VMI asks for stay: QEMU's error says
/// that there is no NUMA.
fn leave_memfd_out(spec: &mut DomainSpec) -> Option<Correction> {
    if spec.numa_tune.is_some() {
        return None;
    }
    let backing = spec.memory_backing.as_mut()?;
    backing.source.take_if(|source| source.kind == MEMFD)?;
    spec.cpu.numa = None;
    Some(Correction::NoMemfd)
}

fn set_vsock_model(spec: &mut DomainSpec, model: &str) -> Option<Correction> {
    let vsock = spec.devices.vsock.as_mut()?;
    let differs = vsock.model != model;
    model.clone_into(&mut vsock.model);
    differs.then_some(Correction::VsockWithoutPci)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain_spec_from_xml::parse;
    use crate::domain_spec_to_xml::render;

    fn correct_xml(xml: &str) -> (String, Vec<Correction>) {
        let mut spec = parse(xml).unwrap();
        let corrections = correct(&mut spec);
        assert_eq!(correct(&mut spec), [], "{xml}");
        (render(&spec), corrections)
    }

    fn normalized(xml: &str) -> String {
        render(&parse(xml).unwrap())
    }

    #[test]
    fn only_the_first_display_of_several_has_ramfb() {
        let device = |name: &str, attributes: &str| {
            format!(
                "<hostdev type=\"mdev\" mode=\"subsystem\" model=\"vfio-pci\" {attributes}>\
                 <source><address uuid=\"{name}\"/></source><alias name=\"ua-gpu-{name}\"/></hostdev>"
            )
        };
        let domain = |devices: &str| format!("<domain><devices>{devices}</devices></domain>");
        let (ramfb, display) = ("display=\"on\" ramfb=\"on\"", "display=\"on\"");
        let before = device("a", display) + &device("b", ramfb) + &device("c", ramfb);
        let (xml, corrections) = correct_xml(&domain(&before));
        let taken_from = vec!["gpu-c".to_owned()];
        assert_eq!(corrections, [Correction::OneRamfb { taken_from }]);
        let after = device("a", display) + &device("b", ramfb) + &device("c", display);
        assert_eq!(xml, normalized(&domain(&after)));
    }

    /// A domain of an architecture with parts that need NUMA or PCI.
    fn domain_of(arch: &str, backing: &str, numa: &str, vsock: &str) -> String {
        format!(
            "<domain><memoryBacking>{backing}</memoryBacking><os><type arch='{arch}'>hvm</type></os>\
             <cpu mode='host-model'>{numa}</cpu><devices><vsock model='{vsock}'><cid auto='no' address='3'/></vsock>\
             </devices></domain>"
        )
    }

    const MEMFD_BACKING: &str = "<hugepages/><access mode='shared'/><source type='memfd'/>";
    const CELL: &str = "<numa><cell id='0' cpus='0-1' memory='1024' unit='KiB'/></numa>";

    #[test]
    fn without_numa_and_pci_memory_is_in_no_memfd_and_vsock_has_the_general_model() {
        let before = domain_of("s390x", MEMFD_BACKING, CELL, "virtio-non-transitional");
        let (xml, corrections) = correct_xml(&before);
        assert_eq!(
            corrections,
            [Correction::NoMemfd, Correction::VsockWithoutPci]
        );
        let backing = "<hugepages/><access mode='shared'/>";
        let after = domain_of("s390x", backing, "", "virtio");
        assert_eq!(xml, normalized(&after));
    }

    #[test]
    fn machines_with_numa_and_pci_keep_both() {
        for arch in ["x86_64", "aarch64"] {
            let domain = domain_of(arch, MEMFD_BACKING, CELL, "virtio-non-transitional");
            assert_eq!(correct_xml(&domain), (normalized(&domain), Vec::new()));
        }
    }

    #[test]
    fn numa_cells_that_the_vmi_asks_for_are_not_left_out() {
        let domain = domain_of("s390x", MEMFD_BACKING, CELL, "virtio");
        let tune = "<numatune><memory mode='strict' nodeset='0'/></numatune><os>";
        let domain = domain.replace("<os>", tune);
        assert_eq!(correct_xml(&domain), (normalized(&domain), Vec::new()));
    }
}
