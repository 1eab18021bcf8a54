//! Reads the host facts that one VMI needs.

use std::path::Path;

use domain::convert::{BlockSizeLookup, ConvertError, block_size_lookups};
use domain::host_facts::HostFacts;
use domain::resource_claims::{ClaimedRequest, claimed_requests};
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;

use super::pod_cpuset::cpuset;
use super::{block_sizes, dra_device_metadata, network_info, pod_device_numa_nodes};
use crate::sysfs_numa::Sysfs;

/// The facts that one VMI needs and that are not probed at start-up: devices of resource claims, block sizes of
/// volumes, addresses of SR-IOV interfaces, and the CPUs of the pod.
pub(crate) struct HostQuery {
    has_sriov: bool,
    has_dedicated_cpus: bool,
    /// Whether PCI devices are placed by their NUMA nodes.
    needs_numa_nodes: bool,
    device_requests: Vec<ClaimedRequest>,
    volumes: Vec<BlockSizeLookup>,
}

impl HostQuery {
    /// Determines the facts that the VMI needs.
    ///
    /// # Errors
    /// [`ConvertError`] for a disk that cannot be converted.
    pub(crate) fn for_vmi(
        vmi: &Vmi,
        options: &Options,
        facts: &HostFacts,
    ) -> Result<Self, ConvertError> {
        let domain = &vmi.spec.domain;
        let mut interfaces = domain.devices.interfaces.iter();
        let cpu = domain.cpu.as_ref();
        let has_dedicated_cpus = cpu.is_some_and(|cpu| cpu.dedicated_cpu_placement);
        Ok(Self {
            has_sriov: interfaces.any(|interface| interface.sriov.is_some()),
            has_dedicated_cpus,
            needs_numa_nodes: has_dedicated_cpus
                && options.cluster().pci_numa_aware_topology_enabled,
            device_requests: claimed_requests(vmi),
            volumes: block_size_lookups(vmi, options, facts)?,
        })
    }

    /// Whether the VMI needs none of these facts.
    pub(crate) fn is_empty(&self) -> bool {
        self.device_requests.is_empty()
            && self.volumes.is_empty()
            && !self.has_sriov
            && !self.has_dedicated_cpus
    }

    /// Reads the facts and adds them, or the reason why a fact cannot be read. `network_info` is the downward API's
    /// file. Blocking: volumes may be on slow storage.
    pub(crate) fn answer(self, mut facts: HostFacts, network_info: &Path) -> HostFacts {
        if self.has_sriov {
            facts.network_info = network_info::read_network_info(network_info);
        }
        if self.has_dedicated_cpus {
            facts.cpuset = cpuset();
        }
        facts.claimed_devices = dra_device_metadata::devices(
            Path::new(dra_device_metadata::METADATA_DIRECTORY),
            &self.device_requests,
        );
        if self.needs_numa_nodes {
            pod_device_numa_nodes::add_numa_nodes(&mut facts, &Sysfs::default());
        }
        for volume in self.volumes {
            match block_sizes::read(&volume) {
                Ok(sizes) => {
                    facts.block_sizes.insert(volume.path, sizes);
                }
                Err(problem) => {
                    facts.block_size_problems.insert(volume.path, problem);
                }
            }
        }
        facts
    }
}
