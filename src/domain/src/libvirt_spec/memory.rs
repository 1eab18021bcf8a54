//! Elements of memory, its backing, and memory devices.

use kubevirt_api::typed_xml::element;

use super::{Address, Alias};

element! {
    /// An amount of memory with its unit.
    Memory {
        value: u64 = text => "Value";
        unit: String = attr "unit" => "Unit";
    }

    /// The maximum memory, and the slots for it.
    MaxMemory {
        value: u64 = text => "Value";
        unit: String = attr "unit" => "Unit";
        slots: u64 = attr "slots" => "Slots";
    }

    /// The backing of the guest's memory.
    MemoryBacking {
        huge_pages: Option<HugePages> = child "hugepages" => "HugePages";
        source: Option<MemoryBackingSource> = child "source" => "Source";
        access: Option<MemoryBackingAccess> = child "access" => "Access";
        allocation: Option<MemoryAllocation> = child "allocation" => "Allocation";
        no_share_pages: Option<NoSharePages> = child "nosharepages" => "NoSharePages";
    }

    /// When memory is allocated.
    MemoryAllocation {
        mode: String = attr "mode" => "Mode";
    }

    /// Anonymous memory, a file or a memfd.
    MemoryBackingSource {
        kind: String = attr "type" => "Type";
    }

    /// Memory from huge pages.
    HugePages {
        huge_page: Vec<HugePage> = child "page" => "HugePage";
    }

    /// One page size and the NUMA nodes that use it.
    HugePage {
        size: String = attr "size" => "Size";
        unit: String = attr "unit" => "Unit";
        node_set: String = attr "nodeset" => "NodeSet";
    }

    /// Shared or private memory.
    MemoryBackingAccess {
        mode: String = attr "mode" => "Mode";
    }

    /// If present, pages are not merged with pages of other guests.
    NoSharePages {}

    /// The address of a memory device in the guest's address space.
    MemoryAddress {
        base: String = attr "base" => "Base";
    }

    /// Size and state of a memory device.
    MemoryTarget {
        size: Memory = child "size" => "Size";
        requested: Memory = child "requested" => "Requested";
        current: Memory = child "current" => "Current";
        node: String = child "node" => "Node";
        block: Memory = child "block" => "Block";
        address: Option<MemoryAddress> = child "address" => "Address";
    }

    /// A memory device (virtio-mem).
    MemoryDevice named "memory" {
        model: String = attr "model" => "Model";
        target: Option<MemoryTarget> = child "target" => "Target";
        alias: Option<Alias> = child "alias" => "Alias";
        address: Option<Address> = child "address" => "Address";
    }
}
