//! `HostTopology`: look-ups in the host's NUMA topology.

/// Lookups in the host's NUMA topology. A trait, because this crate does not access the file system.
pub trait HostTopology {
    /// The NUMA node of a host PCI device (`0000:01:00.0`), if known.
    fn numa_node(&self, pci_address: &str) -> Option<u32>;
    /// The host CPUs of a NUMA node.
    fn node_cpus(&self, node: u32) -> Vec<u32>;
}

/// A host whose topology is unknown.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnknownTopology;

impl HostTopology for UnknownTopology {
    fn numa_node(&self, _pci_address: &str) -> Option<u32> {
        None
    }

    fn node_cpus(&self, _node: u32) -> Vec<u32> {
        Vec::new()
    }
}
