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
//! [`PathPattern`] addresses elements, attributes and texts. Input is never trusted: bytes, depth and nodes are
//! limited, DOCTYPE and entity declarations are refused, and nothing recurses deeper than [`MAX_DEPTH`].
//!
//! # What is promised
//!
//! What this documentation shows follows semantic versioning. Hidden items, all of which are in the module `host`, are
//! for the hook host of the same release and change in any release.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod apply_diff;
mod byte_classes;
mod content_node;
mod diff;
mod document;
mod edit_error;
mod element;
mod element_from_text;
mod element_traits;
mod escape;
mod insertion_namespace_scope;
mod limits;
mod name;
mod parse;
mod path;
mod path_pattern_set;
mod render;
mod replaced_character_check;
mod source_text;
mod start_tag;
mod work_budget;

pub use document::Document;
pub use edit_error::EditError;
pub use element::Element;
pub use limits::{Limits, MAX_DEPTH};
pub use parse::{ParseError, ParseErrorKind};
pub use path::{InsertError, PathError, PathErrorKind, PathPattern};

/// What only the hook host needs: the diff of two documents, its application, and the matching of many patterns, all
/// within a budget. Not covered by semantic versioning.
///
/// Its enums are exhaustive on purpose: the host must decide about every kind of change.
#[doc(hidden)]
pub mod host {
    pub use crate::apply_diff::{ApplyError, apply};
    pub use crate::diff::{Change, ChangeKind, Part, Place, diff, diff_within};
    pub use crate::path::LastStep;
    pub use crate::path_pattern_set::{DocumentIndex, ElementAt, PatternSet, PatternStates};
    pub use crate::work_budget::{Budget, Exhaustion};
    use crate::{Element, PathPattern};

    /// The bytes of an element's start tag, which the search for an attribute reads.
    #[must_use]
    pub fn tag_bytes(element: &Element) -> usize {
        element.tag_bytes()
    }

    /// What a pattern ends in.
    #[must_use]
    pub fn last_step(pattern: &PathPattern) -> LastStep {
        pattern.last_step()
    }

    /// Whether a pattern asks for a position of the elements at this level (0 is the root). Behind `**` a step may be of
    /// any level.
    #[must_use]
    pub fn has_position_at(pattern: &PathPattern, level: usize) -> bool {
        pattern.has_position_at(level)
    }
}
