//! From a VMI to a domain.
//!
//! One file per concern; each has one function that adds its part to the domain. A new device is a
//! file and a line in [`STEPS`].

mod architecture;
mod balloon;
mod block_size;
mod boot;
mod claims;
mod clock;
mod console;
mod context;
mod controllers;
mod cpu;
mod cpu_pool;
mod device_names;
mod device_pool;
mod disks;
mod error;
mod features;
mod filesystems;
mod firmware;
mod grace;
mod graphics;
mod host_devices;
mod hypervisor;
mod input;
mod io_threads;
mod iommufd;
mod launch_security;
mod memory;
mod network;
mod numa;
mod numa_placement;
mod panic_devices;
mod pci_address;
mod pinning;
mod qemu_arguments;
mod reboot;
mod rng;
mod root_complex;
mod smbios;
mod sound;
mod sriov;
mod tpm;
mod usb_redirection;
mod volumes;
mod vsock;
mod watchdog;

pub use block_size::{MatchedVolume, matched_volumes};
use context::Context;
pub use error::ConvertError;

use crate::host::HostFacts;
use crate::options::Options;
use crate::spec::DomainSpec;
use crate::vmi::Vmi;

type Step = fn(&Context<'_>, &mut DomainSpec) -> Result<(), ConvertError>;

/// What is added, in this order. The order decides which of several refusals is reported.
const STEPS: &[Step] = &[
    architecture::check,
    firmware::check,
    host_devices::add,
    network::add,
    tpm::add,
    vsock::add,
    launch_security::add,
    console::add_channels,
    clock::add,
    rng::add,
    input::add,
    balloon::add,
    graphics::add,
    sound::add,
    watchdog::add,
    console::add_serial,
    panic_devices::add,
    features::add,
    smbios::add,
    boot::add,
    filesystems::add,
    usb_redirection::add,
    controllers::add,
    qemu_arguments::add,
    cpu::add,
    io_threads::add,
    memory::add,
    reboot::add,
    iommufd::add,
    hypervisor::add,
    disks::add,
    grace::refuse,
    // What depends on the whole domain.
    pinning::add,
    numa::add,
    numa_placement::place,
    root_complex::place,
];

/// Converts a VMI, domain defaults included.
///
/// # Errors
/// [`ConvertError`] when a field is not supported or the VMI cannot be run; nothing is silently left out.
pub fn convert(vmi: &Vmi, options: &Options, host: &HostFacts) -> Result<DomainSpec, ConvertError> {
    let context = Context::new(vmi, options, host)?;
    let mut spec = DomainSpec {
        xmlns_qemu: "http://libvirt.org/schemas/domain/qemu/1.0".into(),
        name: vmi.domain_name(),
        ..DomainSpec::default()
    };
    STEPS
        .iter()
        .try_for_each(|step| step(&context, &mut spec))?;
    Ok(spec)
}
