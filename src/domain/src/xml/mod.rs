//! How the typed elements of [`crate::spec`] meet XML and JSON.
//!
//! An element is declared once with [`element!`]: field, place in the XML, name in KubeVirt's JSON.
//! The table generates all three directions: XML text, reading libvirt's `dumpxml`, and the
//! `Domain` JSON that virt-handler decodes.

mod element;
mod read;
mod scalar;
mod wire;
mod write;

pub(crate) use element::element;
pub use read::ParseError;
pub(crate) use read::{ReadChild, ReadNode, local_name, read_attr, read_text};
pub(crate) use scalar::Scalar;
pub(crate) use wire::Wire;
pub use wire::XmlName;
pub(crate) use write::{WriteChild, WriteNode, Writer};
