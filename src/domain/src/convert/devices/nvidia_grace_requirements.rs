//! Checks the requirements of IO virtualization on NVIDIA Grace, which needs a host with SMMUv3. KubeVirt makes the
//! same checks with the same messages, except for the last two: for SMMUv3, and that this launcher does not configure it.

use crate::convert::conversion_inputs::Context;
use crate::convert::devices::controllers::disables_pci_hole64;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::DomainSpec;

pub(crate) fn check(context: &Context<'_>, _spec: &mut DomainSpec) -> Result<(), ConvertError> {
    if context.options.grace_host_device_aliases.is_empty() {
        return Ok(());
    }
    let cluster = &context.cluster;
    let needs_pcie = format!(
        "GraceIOVirtualization requires PCIe placement support on architecture {}",
        context.architecture.name()
    );
    let checks = [
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
            !context.architecture.can_place_on_pcie(),
            needs_pcie.as_str(),
        ),
        (
            disables_pci_hole64(context),
            "GraceIOVirtualization requires the 64-bit PCI hole",
        ),
        (
            context.vmi.is_on_root_complex(),
            "GraceIOVirtualization cannot be combined with PCI root-complex placement",
        ),
        (
            !context.architecture.can_have_smmuv3(),
            "GraceIOVirtualization requires SMMUv3 on the host",
        ),
        (
            true,
            "GraceIOVirtualization is not supported by this launcher yet: turn the feature gate off",
        ),
    ];
    let failed_check = checks.into_iter().find(|(fails, _)| *fails);
    failed_check.map_or(Ok(()), |(_, message)| Err(ConvertError::invalid(message)))
}
