//! The `<domain>` element, and its `<resource>` and `<iothreads>`.

use kubevirt_api::typed_xml::element;

use super::{
    Clock, Commandline, Cpu, CpuTune, Devices, Features, IommuFd, LaunchSecurity, MaxMemory,
    Memory, MemoryBacking, Metadata, NumaTune, Os, SysInfo, Vcpu, Vcpus,
};

element! {
    /// A libvirt domain, with the elements that KubeVirt uses.
    DomainSpec named "domain" {
        kind: String = attr "type" => "Type";
        xmlns_qemu: String = attr "xmlns:qemu" when set => "XmlNS";
        name: String = child "name" => "Name";
        uuid: String = child "uuid" when set => "UUID";
        memory: Memory = child "memory" => "Memory";
        current_memory: Option<Memory> = child "currentMemory" => "CurrentMemory";
        max_memory: Option<MaxMemory> = child "maxMemory" => "MaxMemory";
        memory_backing: Option<MemoryBacking> = child "memoryBacking" => "MemoryBacking";
        os: Os = child "os" => "OS";
        sys_info: Option<SysInfo> = child "sysinfo" => "SysInfo";
        devices: Devices = child "devices" => "Devices";
        clock: Option<Clock> = child "clock" => "Clock";
        resource: Option<Resource> = child "resource" => "Resource";
        qemu_commandline: Option<Commandline> = child "qemu:commandline" => "QEMUCmd";
        metadata: Metadata = child "metadata" => "Metadata";
        features: Option<Features> = child "features" => "Features";
        cpu: Cpu = child "cpu" => "CPU";
        vcpu: Option<Vcpu> = child "vcpu" => "VCPU";
        vcpus: Option<Vcpus> = child "vcpus" => "VCPUs";
        cpu_tune: Option<CpuTune> = child "cputune" => "CPUTune";
        numa_tune: Option<NumaTune> = child "numatune" => "NUMATune";
        io_threads: Option<IoThreads> = child "iothreads" => "IOThreads";
        launch_security: Option<LaunchSecurity> = child "launchSecurity" => "LaunchSecurity";
        on_reboot: String = child "on_reboot" when set => "OnReboot";
        iommufd: Option<IommuFd> = child "iommufd" => "IOMMUFD";
    }

    /// The cgroup partition of the domain.
    Resource {
        partition: String = child "partition" => "Partition";
    }

    /// The number of QEMU's IO threads.
    IoThreads {
        io_threads: u64 = text => "IOThreads";
    }
}
