//! Grace IO virtualization. It needs a host with SMMUv3, which no amd64 host has; what is checked
//! before that is KubeVirt's, in its words.

use super::controllers::disables_pci_hole64;
use super::{Context, ConvertError};
use crate::spec::DomainSpec;

pub(super) fn refuse(context: &Context<'_>, _spec: &mut DomainSpec) -> Result<(), ConvertError> {
    if context.options.grace_host_device_aliases.is_empty() {
        return Ok(());
    }
    let cluster = &context.cluster;
    let hindrances = [
        (
            !cluster.grace_io_virtualization_enabled,
            "GraceIOVirtualization conversion requested without the GraceIOVirtualization feature gate",
        ),
        (
            !cluster.pci_numa_aware_topology_enabled,
            "GraceIOVirtualization requires PCINUMAAwareTopology for PCI placement",
        ),
        (
            !context.host.iommufd,
            "GraceIOVirtualization requires an IOMMUFD file descriptor in virt-launcher",
        ),
        (
            !context.has_dedicated_cpus(),
            "GraceIOVirtualization requires dedicated CPU placement",
        ),
        (
            disables_pci_hole64(context),
            "GraceIOVirtualization requires the 64-bit PCI hole",
        ),
        (
            context.vmi.is_on_root_complex(),
            "GraceIOVirtualization cannot be combined with PCI root-complex placement",
        ),
        (true, "GraceIOVirtualization requires SMMUv3 on the host"),
    ];
    let found = hindrances.into_iter().find(|(hinders, _)| *hinders);
    found.map_or(Ok(()), |(_, message)| Err(ConvertError::refused(message)))
}
