//! Processors, memory, boot, clock and the machine itself.

pub(crate) mod clock;
pub(crate) mod cpu_pinning;
pub(crate) mod cpu_pool;
pub(crate) mod features;
pub(crate) mod hypervisor;
pub(crate) mod launch_security;
pub(crate) mod memory;
pub(crate) mod numa;
pub(crate) mod on_reboot;
pub(crate) mod os_element;
pub(crate) mod processors;
pub(crate) mod qemu_arguments;
pub(crate) mod smbios;
pub(crate) mod uefi_firmware;
