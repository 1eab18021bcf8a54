//! Modules of a crate form no import cycles, computed from the sources.
//!
//! Siblings are compared: module `a` depends on its sibling `b` if any file in `a` names an item that a file in `b`
//! defines, also through re-exports. A module and its parent may name each other. Test modules are left out.
#![allow(clippy::unwrap_used)]

mod cycle_search;
mod modules;
mod named_paths_and_items;

use std::collections::BTreeSet;

use tests::binaries::workspace;

/// An accepted cycle.
struct Exception {
    /// The crate's directory, and the module whose children form the cycle (empty: the crate's root).
    parent: (&'static str, &'static str),
    /// The children.
    members: &'static [&'static str],
    #[expect(dead_code, reason = "for readers")]
    reason: &'static str,
}

const EXCEPTIONS: &[Exception] = &[Exception {
    parent: ("src/domain-xml", ""),
    members: &[
        "content_node",
        "element",
        "insertion_namespace_scope",
        "render",
        "source_text",
    ],
    reason: "one data structure: an element keeps its source text, from which its nodes are read on access, and is rendered on its own",
}];

fn package_directories() -> Vec<String> {
    let mut directories = Vec::new();
    for parent in ["src", "hooks-sdk", "proto", "tests"] {
        let directory = workspace().join(parent);
        if directory.join("Cargo.toml").is_file() {
            directories.push(parent.to_owned());
        }
        for entry in std::fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            if entry.path().join("Cargo.toml").is_file() {
                directories.push(format!("{parent}/{}", entry.file_name().to_str().unwrap()));
            }
        }
    }
    directories.sort();
    assert!(
        directories.len() > 8,
        "the crates have moved: {directories:?}"
    );
    directories
}

#[test]
fn modules_form_no_import_cycles() {
    let mut unaccepted = Vec::new();
    let mut found_exceptions = BTreeSet::new();
    for directory in package_directories() {
        for (root, crate_modules) in modules::of_package(&workspace().join(&directory)) {
            for cycle in cycle_search::cycles(&crate_modules) {
                let exception = EXCEPTIONS.iter().position(|exception| {
                    exception.parent == (&*directory, &*cycle.parent)
                        && cycle.members.iter().eq(exception.members)
                });
                match exception {
                    Some(index) => _ = found_exceptions.insert(index),
                    None => unaccepted.push(format!("{directory}/{root}: {cycle}")),
                }
            }
        }
    }
    assert!(
        unaccepted.is_empty(),
        "import cycles:\n{}",
        unaccepted.join("\n")
    );
    for (index, exception) in EXCEPTIONS.iter().enumerate() {
        assert!(
            found_exceptions.contains(&index),
            "the cycle of {:?} in {:?} is gone: remove the exception",
            exception.members,
            exception.parent
        );
    }
}

#[test]
fn cycle_through_a_re_export_is_reported() {
    let modules = modules::Modules::new(&[
        ("", "mod a; mod b; mod c; pub use b::inner::Item;"),
        ("a", "use crate::Item; pub struct A;"),
        ("b", "pub(crate) mod inner;"),
        (
            "b::inner",
            "fn f(_: super::super::a::A) {} pub struct Item;",
        ),
        (
            "c",
            "use crate::a::A; use super::{b, Item}; // use crate::c::X;",
        ),
    ]);
    let cycles = cycle_search::cycles(&modules);
    assert_eq!(cycles.len(), 1);
    assert_eq!(cycles[0].parent, "");
    assert_eq!(cycles[0].members, ["a", "b"]);
}

#[test]
fn cycle_through_a_glob_is_reported() {
    let modules = modules::Modules::new(&[
        (
            "",
            "mod a; mod b; mod c; pub use a::*; pub use b::*; pub use c::*;",
        ),
        ("a", "use super::B; pub struct A;"),
        ("b", "use crate::A; pub struct B;"),
        ("c", "use super::{A, B}; pub struct C;"),
    ]);
    let cycles = cycle_search::cycles(&modules);
    assert_eq!(cycles.len(), 1);
    assert_eq!(cycles[0].members, ["a", "b"]);
}

#[test]
fn parents_and_test_modules_are_ignored() {
    let modules = modules::Modules::new(&[
        ("", "mod a; mod b; pub struct Root;"),
        (
            "a",
            "use crate::Root; use crate::b::B; #[cfg(test)] mod tests { use crate::b; }",
        ),
        (
            "b",
            "pub struct B; #[cfg(test)] mod tests { use crate::a::A; fn f() { if x {} } }",
        ),
    ]);
    assert!(cycle_search::cycles(&modules).is_empty());
}
