//! CPUs, memory, firmware, clock and the machine itself.

pub(crate) mod clock;
pub(crate) mod cpu_pinning;
pub(crate) mod cpu_pool;
pub(crate) mod domain_type;
pub(crate) mod hypervisor_features;
pub(crate) mod ignition_and_firmware_log;
pub(crate) mod launch_security;
pub(crate) mod memory;
pub(crate) mod numa_passthrough;
pub(crate) mod on_reboot;
pub(crate) mod os_element;
pub(crate) mod smbios;
pub(crate) mod uefi_firmware;
pub(crate) mod vcpus_and_cpu_model;
