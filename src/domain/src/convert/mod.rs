//! From a VMI to a domain.
//!
//! One file per concern; each has one function that adds its part to the domain. A new device is a
//! file and a line in [`STEPS`]. What no step handles is refused by [`unsupported`], never left out.

mod balloon;
mod boot;
mod clock;
mod console;
mod context;
mod controllers;
mod cpu;
mod device_names;
mod disks;
mod error;
mod features;
mod filesystems;
mod graphics;
mod hypervisor;
mod input;
mod io_threads;
mod memory;
mod network;
mod panic_devices;
mod pci_address;
mod qemu_arguments;
mod reboot;
mod rng;
mod smbios;
mod sound;
mod tpm;
mod unserved;
mod unsupported;
mod usb_redirection;
mod volumes;
mod vsock;
mod watchdog;

use context::Context;
pub use error::ConvertError;
pub use unserved::check_served;

use crate::host::HostFacts;
use crate::options::Options;
use crate::spec::DomainSpec;
use crate::vmi::Vmi;

type Step = fn(&Context<'_>, &mut DomainSpec) -> Result<(), ConvertError>;

/// What is added, in this order. The order decides which of several refusals is reported.
const STEPS: &[Step] = &[
    unsupported::refuse,
    network::add,
    tpm::add,
    vsock::add,
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
    disks::add,
    usb_redirection::add,
    controllers::add,
    qemu_arguments::add,
    cpu::add,
    io_threads::add,
    memory::add,
    reboot::add,
    hypervisor::add,
];

/// Converts a VMI, domain defaults included.
///
/// # Errors
/// [`ConvertError`] when a field is not supported or the VMI cannot be run; nothing is silently left out.
pub fn convert(vmi: &Vmi, options: &Options, host: &HostFacts) -> Result<DomainSpec, ConvertError> {
    let context = Context::new(vmi, options, host)?;
    let mut spec = DomainSpec {
        kind: "kvm".into(),
        xmlns_qemu: "http://libvirt.org/schemas/domain/qemu/1.0".into(),
        name: vmi.domain_name(),
        ..DomainSpec::default()
    };
    STEPS
        .iter()
        .try_for_each(|step| step(&context, &mut spec))?;
    Ok(spec)
}
