//! What a VM is: the VMI as it comes in, the libvirt domain it becomes, and the words in which the
//! domain is reported back. Pure: no file, no process, no libvirt, no runtime.
//!
//! ```text
//! VMI JSON ─ vmi ─▶ Vmi ─┐
//! options, host facts ───┴─ convert ─▶ DomainSpec ─ prepare ─ render ─▶ domain XML
//! libvirt's dumpxml ─ parse ─▶ DomainSpec ─ wire ─▶ Domain JSON ─▶ virt-handler
//! ```

pub mod access_credentials;
pub mod cloud_init;
pub mod convert;
pub mod host;
pub mod hotplug_room;
pub mod local_disks;
pub mod metadata;
pub mod options;
pub mod parse;
pub mod pod_network;
pub mod prepare;
pub mod render;
pub mod resource_claims;
pub mod spec;
pub mod state;
pub mod vmi;
pub mod wire;
mod xml;
