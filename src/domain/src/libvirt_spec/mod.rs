//! The domain as typed elements. Conversion creates them, `domain_spec_to_xml` writes them as XML,
//! `domain_spec_from_xml` reads them from libvirt's XML, and virt-handler receives them as JSON.
//!
//! Each element is one entry of a table ([`kubevirt_api::typed_xml`]): Rust field, place in libvirt's domain XML
//! (<https://libvirt.org/formatdomain.html>), name in KubeVirt's JSON. Attributes and texts are
//! `String`s with libvirt's values, because libvirt reports more values than conversion writes.

mod address_boot_order_acpi_rom;
mod alias;
mod balloon_rng_tpm_watchdog;
mod clock;
mod controller;
mod cpu_numa_pinning;
mod devices;
mod disk;
mod domain;
mod features;
mod filesystem;
mod hostdev;
mod interface;
mod iommu_and_iommufd;
mod launch_security;
mod memory;
mod os_and_smbios;
mod panic_vsock_redirdev;
mod qemu_commandline;
mod serial_console_channel;
mod video_graphics_sound_input;
mod yes_no_on_off;

pub use address_boot_order_acpi_rom::*;
pub use alias::Alias;
pub(crate) use alias::{SRIOV_ALIAS, USER_PREFIX};
pub use balloon_rng_tpm_watchdog::*;
pub use clock::*;
pub use controller::*;
pub use cpu_numa_pinning::*;
pub use devices::*;
pub use disk::*;
pub use domain::*;
pub use features::*;
pub use filesystem::*;
pub use hostdev::*;
pub use interface::*;
pub use iommu_and_iommufd::*;
pub use kubevirt_api::domain_metadata::{KubeVirtMetadata, Metadata};
pub use kubevirt_api::typed_xml::XmlName;
pub use launch_security::*;
pub use memory::*;
pub use os_and_smbios::*;
pub use panic_vsock_redirdev::*;
pub use qemu_commandline::*;
pub use serial_console_channel::*;
pub use video_graphics_sound_input::*;
pub(crate) use yes_no_on_off::{on_off, yes_no};

/// The `Domain` JSON that virt-handler decodes.
pub type DomainJson = kubevirt_api::domain_json::Domain<DomainSpec>;

impl kubevirt_api::domain_json::Specification for DomainSpec {
    fn set_metadata(&mut self, metadata: KubeVirtMetadata) {
        self.metadata.kubevirt = metadata;
    }
}
