//! Conversion of a VMI to a domain.
//!
//! Most files below have a function `add`, which adds a part of the domain. A new device is a new file, `mod` and
//! `use` lines, and a line in `STEPS`.

pub(crate) mod arch;
mod compute;
mod conversion_inputs;
mod conversion_purpose;
mod cpu_topology;
mod devices;
mod error;
mod file_name_of_path;
mod network;
mod pci_address;
mod storage;

use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;

use compute::{
    clock, cpu_pinning, domain_type, hypervisor_features, ignition_and_firmware_log,
    launch_security, memory, numa_passthrough, on_reboot, os_element, smbios, uefi_firmware,
    vcpus_and_cpu_model,
};
use conversion_inputs::Context;
use devices::{
    balloon, console_and_channels, controllers, graphics_and_video, host_device_numa_placement,
    host_devices, input_devices, iommufd, nvidia_grace_requirements, panic_devices, rng,
    root_complex_placement, sound, tpm, usb_redirection, vsock, watchdog,
};
use network::interfaces;
use storage::{disks, filesystems, io_threads};

use crate::host_facts::HostFacts;
use crate::libvirt_spec::{DomainSpec, HostDevice};

pub use error::ConvertError;
pub(crate) use storage::io_threads::has_dedicated_io_thread;
pub(crate) use storage::volume_paths;

pub use arch::{SEV_FIRMWARE, architecture_names};
pub use compute::ignition_and_firmware_log::{FIRMWARE_LOG, is_firmware_logged};
pub use conversion_purpose::Purpose;
pub use devices::sriov::has_attached_sriov;
pub use storage::block_size_lookups::{BlockSizeLookup, block_size_lookups};
pub use storage::volume_mode_lookups::{VolumeModeLookup, volume_mode_lookups};

type Step = fn(&Context<'_>, &mut DomainSpec) -> Result<(), ConvertError>;

/// The steps in order. If several steps fail, the error of the first one is reported.
const STEPS: &[Step] = &[
    uefi_firmware::check,
    host_devices::add,
    interfaces::add,
    tpm::add,
    vsock::add,
    launch_security::add,
    console_and_channels::add_channels,
    clock::add,
    rng::add,
    input_devices::add,
    balloon::add,
    graphics_and_video::add,
    sound::add,
    watchdog::add,
    console_and_channels::add_serial,
    panic_devices::add,
    hypervisor_features::add,
    smbios::add,
    os_element::add,
    filesystems::add,
    usb_redirection::add,
    controllers::add,
    ignition_and_firmware_log::add,
    vcpus_and_cpu_model::add,
    io_threads::add,
    memory::add,
    on_reboot::add,
    iommufd::add,
    domain_type::add,
    disks::add,
    nvidia_grace_requirements::check,
    // These steps read the whole domain.
    cpu_pinning::add,
    numa_passthrough::add,
    host_device_numa_placement::place,
    root_complex_placement::place,
];

/// The steps that place the guest's vCPUs and memory on the host's CPUs and NUMA nodes.
const PLACEMENT_STEPS: &[Step] = &[
    vcpus_and_cpu_model::add,
    io_threads::add,
    memory::add,
    cpu_pinning::add,
    numa_passthrough::add,
];

/// The part of a domain that places the guest on the host's CPUs and NUMA nodes.
///
/// # Errors
/// [`ConvertError`] if the host, described by `host` and `options`, lacks something that the VMI requests.
pub fn cpu_and_numa_placement(
    vmi: &Vmi,
    options: &Options,
    host: &HostFacts,
) -> Result<DomainSpec, ConvertError> {
    let context = Context::new(vmi, options, host, Purpose::Boot)?;
    let mut spec = DomainSpec::default();
    PLACEMENT_STEPS
        .iter()
        .try_for_each(|step| step(&context, &mut spec))?;
    Ok(spec)
}

/// The vGPU of this pod that replaces the source's.
///
/// # Errors
/// [`ConvertError`] if there are several, or the pod does not have the device that the VMI requests.
pub(crate) fn migrated_vgpu(
    vmi: &Vmi,
    options: &Options,
    host: &HostFacts,
) -> Result<Option<HostDevice>, ConvertError> {
    let context = Context::new(vmi, options, host, Purpose::MigrationTarget)?;
    host_devices::migrated_vgpu(&context)
}

/// The number of vCPUs that the VMI requests now: sockets x cores x threads.
///
/// # Errors
/// [`ConvertError`] for more vCPUs than any machine type supports.
pub fn requested_vcpus(vmi: &Vmi) -> Result<u32, ConvertError> {
    cpu_topology::count(&cpu_topology::boot_topology(vmi)?)
}

/// Converts a VMI to a domain for a boot, with KubeVirt's defaults.
///
/// # Errors
/// [`ConvertError`] if a field is not supported or the VMI cannot run.
pub fn convert(vmi: &Vmi, options: &Options, host: &HostFacts) -> Result<DomainSpec, ConvertError> {
    convert_for(Purpose::Boot, vmi, options, host)
}

/// Converts a VMI as [`convert`] does, for a boot or for a migration target.
///
/// # Errors
/// As for [`convert`], and for several mediated devices on a migration target.
pub fn convert_for(
    purpose: Purpose,
    vmi: &Vmi,
    options: &Options,
    host: &HostFacts,
) -> Result<DomainSpec, ConvertError> {
    require_short_name(vmi)?;
    let context = Context::new(vmi, options, host, purpose)?;
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

/// The most bytes that a domain's name can have: libvirt names files after it, of which this suffix is the longest.
const MAX_DOMAIN_NAME_BYTES: usize = 255 - "-swtpm.log".len();

/// Kubernetes allows names that are longer than libvirt's.
fn require_short_name(vmi: &Vmi) -> Result<(), ConvertError> {
    let bytes = vmi.domain_name().len();
    if bytes <= MAX_DOMAIN_NAME_BYTES {
        return Ok(());
    }
    Err(ConvertError::invalid(format!(
        "metadata.name has {} characters, of which libvirt allows {} in the namespace {}: the name of its domain, \
         NAMESPACE_NAME, may have {MAX_DOMAIN_NAME_BYTES}",
        vmi.name().len(),
        (MAX_DOMAIN_NAME_BYTES - 1).saturating_sub(vmi.namespace().len()),
        vmi.namespace(),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_libvirt_cannot_store_is_refused_with_the_limit() {
        let named = |length: usize| {
            let name = "n".repeat(length);
            let vmi = serde_json::json!({"metadata": {"name": name, "namespace": "default"}});
            Vmi::from_json(vmi.to_string().as_bytes()).unwrap()
        };
        require_short_name(&named(237)).unwrap();
        let error = require_short_name(&named(238)).unwrap_err().to_string();
        assert_eq!(
            error,
            "metadata.name has 238 characters, of which libvirt allows 237 in the namespace default: the name of its \
             domain, NAMESPACE_NAME, may have 245"
        );
        let options = Options::default();
        let error = convert(&named(253), &options, &HostFacts::default()).unwrap_err();
        assert!(
            error.to_string().starts_with("metadata.name has 253"),
            "{error}"
        );
    }
}
