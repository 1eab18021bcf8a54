//! The domain as typed elements: conversion builds them, rendering writes them, parsing fills them from libvirt's
//! XML, virt-handler gets them as JSON.
//!
//! Each element is one entry of a table ([`kubevirt_api::typed_xml`]): Rust field, place in libvirt's domain XML
//! (<https://libvirt.org/formatdomain.html>), name in KubeVirt's JSON. Attributes and texts are
//! `String`s with libvirt's words, since libvirt reports more values than conversion writes.

mod alias;
mod clock;
mod console;
mod controller;
mod cpu;
mod devices;
mod disk;
mod display;
mod domain;
mod features;
mod filesystem;
mod hostdev;
mod interface;
mod memory;
mod os;
mod platform;
mod switch;
mod virtio;

pub use alias::Alias;
pub use clock::*;
pub use console::*;
pub use controller::*;
pub use cpu::*;
pub use devices::*;
pub use disk::*;
pub use display::*;
pub use domain::*;
pub use features::*;
pub use filesystem::*;
pub use hostdev::*;
pub use interface::*;
pub use kubevirt_api::metadata::{KubeVirtMetadata, Metadata};
pub use kubevirt_api::typed_xml::XmlName;
pub use memory::*;
pub use os::*;
pub use platform::*;
pub(crate) use switch::{on_off, yes_no};
pub(crate) use virtio::pci_virtio_model;

/// A domain in the form that virt-handler decodes.
pub type DomainJson = kubevirt_api::domain_json::Domain<DomainSpec>;

impl kubevirt_api::domain_json::Specification for DomainSpec {
    fn set_metadata(&mut self, metadata: KubeVirtMetadata) {
        self.metadata.kubevirt = metadata;
    }
}
