//! Typed XML elements, which can be written as XML and as KubeVirt's JSON, and read from XML.
//!
//! [`element!`](crate::element!) declares an element once: field, place in the XML, name in KubeVirt's JSON. The
//! macro generates the writer of XML text, the reader of libvirt's `dumpxml`, and the `Domain` JSON for virt-handler.

mod element_macro;
mod go_json_fields;
mod read_elements;
mod scalar;
mod write_elements;

pub use crate::element;
pub use go_json_fields::{JsonField, XmlName};
pub use read_elements::{ParseError, ReadChild, ReadElement, local_name, read_attr, read_text};
pub use scalar::Scalar;
pub use write_elements::{WriteChild, WriteElement, XmlWriter};
