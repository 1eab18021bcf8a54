//! The domain as typed elements: what conversion builds, what rendering writes, what parsing
//! fills from libvirt's XML, what virt-handler is told.
//!
//! Each element is one entry of a table ([`crate::xml`]): Rust field, place in libvirt's domain XML
//! (<https://libvirt.org/formatdomain.html>), name in KubeVirt's JSON. Attributes and texts are
//! `String`s with libvirt's words, since libvirt reports back more than we ever write.

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

pub use crate::metadata::{KubeVirtMetadata, Metadata};
pub use crate::xml::XmlName;
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
pub use memory::*;
pub use os::*;
pub use platform::*;
