//! Elements of CPUs, NUMA and pinning.

use kubevirt_api::typed_xml::element;

element! {
    /// The CPU model, its features and its topology, and NUMA cells.
    Cpu {
        mode: String = attr "mode" when set => "Mode";
        model: String = child "model" when set => "Model";
        features: Vec<CpuFeature> = child "feature" => "Features";
        topology: Option<CpuTopology> = child "topology" => "Topology";
        numa: Option<Numa> = child "numa" => "NUMA";
    }

    /// One CPU feature and its policy.
    CpuFeature {
        name: String = attr "name" => "Name";
        policy: String = attr "policy" when set => "Policy";
    }

    /// Sockets, cores and threads.
    CpuTopology {
        sockets: u32 = attr "sockets" when set => "Sockets";
        cores: u32 = attr "cores" when set => "Cores";
        threads: u32 = attr "threads" when set => "Threads";
    }

    /// NUMA cells of the guest.
    Numa {
        cells: Vec<NumaCell> = child "cell" => "Cells";
    }

    /// One NUMA cell of the guest.
    NumaCell {
        id: String = attr "id" => "ID";
        cpus: String = attr "cpus" when set => "CPUs";
        memory: Option<u64> = attr "memory" => "Memory";
        unit: String = attr "unit" when set => "Unit";
        memory_access: String = attr "memAccess" when set => "MemoryAccess";
        distances: Option<NumaCellDistances> = child "distances" => "Distances";
    }

    /// Distances from one cell to the others.
    NumaCellDistances {
        siblings: Vec<NumaCellSibling> = child "sibling" => "Siblings";
    }

    /// Distance to one cell.
    NumaCellSibling {
        id: String = attr "id" => "ID";
        value: u64 = attr "value" => "Value";
    }

    /// The number of vCPUs.
    Vcpu {
        placement: String = attr "placement" => "Placement";
        cpus: u32 = text => "CPUs";
    }

    /// The list of vCPUs, for hotplug.
    Vcpus {
        vcpu: Vec<VcpusVcpu> = child "vcpu" => "VCPU";
    }

    /// One vCPU.
    VcpusVcpu {
        id: u32 = attr "id" => "ID";
        enabled: String = attr "enabled" when set => "Enabled";
        hotpluggable: String = attr "hotpluggable" when set => "Hotpluggable";
        order: u32 = attr "order" when set => "Order";
    }

    /// Pinning of threads to host CPUs.
    CpuTune {
        vcpu_pin: Vec<VcpuPin> = child "vcpupin" => "VCPUPin";
        io_thread_pin: Vec<IoThreadPin> = child "iothreadpin" => "IOThreadPin";
        emulator_pin: Option<EmulatorPin> = child "emulatorpin" => "EmulatorPin";
    }

    /// The host CPUs of one vCPU.
    VcpuPin {
        vcpu: u32 = attr "vcpu" => "VCPU";
        cpuset: String = attr "cpuset" => "CPUSet";
    }

    /// The host CPUs of one IO thread.
    IoThreadPin {
        io_thread: u32 = attr "iothread" => "IOThread";
        cpuset: String = attr "cpuset" => "CPUSet";
    }

    /// The host CPUs of QEMU's emulator threads.
    EmulatorPin {
        cpuset: String = attr "cpuset" => "CPUSet";
    }

    /// The host NUMA nodes of the guest's memory.
    NumaTune {
        memory: NumaTuneMemory = child "memory" => "Memory";
        mem_nodes: Vec<MemNode> = child "memnode" => "MemNodes";
    }

    /// The host NUMA nodes for all memory of the guest.
    NumaTuneMemory {
        mode: String = attr "mode" => "Mode";
        node_set: String = attr "nodeset" => "NodeSet";
    }

    /// The host NUMA nodes for one guest cell.
    MemNode {
        cell_id: u32 = attr "cellid" => "CellID";
        mode: String = attr "mode" => "Mode";
        node_set: String = attr "nodeset" => "NodeSet";
    }
}
