//! The children of one element that have one name in paths.

use std::cell::OnceCell;

use super::element_keys::{self, Kind};
use super::identity_index::ALTERNATIVES;

/// The children with one name in paths.
pub(super) struct PathNameGroup {
    pub(super) kind: Kind,
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) count: usize,
    /// Whether the children have different namespaces, because one is written with the prefix of another namespace.
    pub(super) has_several_namespaces: bool,
    /// For each alternative key: whether a child has one of its parts several times, so that predicates cannot
    /// distinguish the children.
    pub(super) has_repeated_parts: OnceCell<[bool; ALTERNATIVES]>,
}

impl PathNameGroup {
    pub(super) fn new(first: usize, name: &str) -> PathNameGroup {
        PathNameGroup {
            kind: element_keys::kind(name),
            first,
            last: first,
            count: 1,
            has_several_namespaces: false,
            has_repeated_parts: OnceCell::new(),
        }
    }
}
