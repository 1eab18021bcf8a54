//! A lossless tree of libvirt domain XML, shared by the hook host and by hooks.
//!
//! Unedited parts render byte for byte as they were read: prolog, comments, CDATA, entities, white space, attribute
//! quoting, `<a/>` or `<a></a>`. An edit changes only the bytes of its own place, and inserted elements are indented
//! like their neighbours.
//!
//! ```
//! let mut domain = domain_xml::Document::parse("<domain type='kvm'>\n  <name>vm</name>\n</domain>\n")?;
//! domain.root_mut().ensure("os/smbios")?.set_attr("mode", "sysinfo");
//! assert_eq!(
//!     domain.render(),
//!     "<domain type='kvm'>\n  <name>vm</name>\n  <os>\n    <smbios mode='sysinfo'/>\n  </os>\n</domain>\n",
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`PathPattern`] addresses elements, attributes and texts; [`diff`] lists the changes between two documents by such
//! paths, and [`apply`] applies them. Input is never trusted: bytes, depth and nodes are limited,
//! DOCTYPE and entity declarations are refused, and nothing recurses deeper than [`MAX_DEPTH`].

mod apply;
mod byte_classes;
mod canonical_name;
mod diff;
mod document;
mod element;
mod element_edit;
mod element_from_text;
mod escape;
mod insertion_scope;
mod limits;
pub mod matching;
mod name;
mod parse;
mod path;
mod render;
mod source_text;
mod start_tag;
mod work_budget;

pub use apply::{ApplyError, apply};
pub use diff::{Change, ChangeKind, Part, Place, diff, diff_within};
pub use document::Document;
pub use element::Element;
pub use limits::{Limits, MAX_DEPTH};
pub use parse::{ParseError, ParseErrorKind};
pub use path::{InsertError, PathError, PathErrorKind, PathPattern};
pub use work_budget::{Budget, Exhausted};
