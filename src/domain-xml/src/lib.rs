//! A lossless tree of libvirt domain XML, shared by the hook host and by hooks.
//!
//! What nobody touches renders byte for byte as it was read: prolog, comments, CDATA, entities,
//! white space, attribute quoting, `<a/>` or `<a></a>`. An edit changes the bytes of its own
//! place only, and elements that are added line up with their neighbours.
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
//! [`PathPattern`] addresses elements, attributes and texts; [`diff`] says what changed between
//! two documents in such paths, [`apply`] makes such changes, and [`grant`] says whether paths
//! permit them. Input is never trusted: bytes, depth and nodes are limited,
//! DOCTYPE and entity declarations are refused, and nothing recurses deeper than [`MAX_DEPTH`].

mod apply;
mod bytes;
mod diff;
mod document;
mod edit;
mod element;
mod escape;
pub mod grant;
mod limits;
mod name;
mod parse;
mod path;
mod render;
mod scope;
mod source;
mod tag;

pub use apply::{ApplyError, apply};
pub use diff::{Change, ChangeKind, diff};
pub use document::Document;
pub use element::Element;
pub use limits::{Limits, MAX_DEPTH};
pub use parse::{ParseError, ParseErrorKind};
pub use path::{PathError, PathErrorKind, PathPattern};
