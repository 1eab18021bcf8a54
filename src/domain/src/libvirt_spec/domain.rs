//! The `<domain>` element, and small elements directly below it.

use kubevirt_api::typed_xml::element;

use super::{
    Clock, Cpu, CpuTune, Devices, Features, IommuFd, MaxMemory, Memory, MemoryBacking, Metadata,
    NumaTune, Os, SysInfo, Vcpu, Vcpus,
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

    /// Arguments and environment variables that libvirt passes to QEMU.
    Commandline {
        env: Vec<Env> = child "qemu:env" => "QEMUEnv";
        arg: Vec<Arg> = child "qemu:arg" => "QEMUArg";
    }

    /// One environment variable for QEMU.
    Env {
        name: String = attr "name" => "Name";
        value: String = attr "value" => "Value";
    }

    /// One argument for QEMU.
    Arg {
        value: String = attr "value" => "Value";
    }

    /// The number of QEMU's IO threads.
    IoThreads {
        io_threads: u64 = text => "IOThreads";
    }

    /// Confidential computing: SEV, SEV-SNP, TDX or protected virtualization.
    LaunchSecurity {
        kind: String = attr "type" => "Type";
        dh_cert: String = child "dhCert" when set => "DHCert";
        session: String = child "session" when set => "Session";
        cbitpos: String = child "cbitpos" when set => "Cbitpos";
        reduced_phys_bits: String = child "reducedPhysBits" when set => "ReducedPhysBits";
        policy: String = child "policy" when set => "Policy";
        quote_generation_service: Option<QuoteGenerationService> = child "quoteGenerationService" => "QuoteGenerationService";
    }

    /// The socket of the service that generates TDX quotes.
    QuoteGenerationService {
        path: String = attr "path" when set => "Path";
    }
}
