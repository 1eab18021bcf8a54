//! Modules of a crate form no import cycles, computed from the sources of all workspace members: libraries, programs, tests,
//! benchmarks and build scripts.
//!
//! Siblings are compared: module `a` depends on its sibling `b` if any file in `a` names an item that a file in `b`
//! defines, also through re-exports. A module and its parent may name each other. Test modules are left out.
#![allow(clippy::unwrap_used)]

mod cycle_search;
mod modules;
mod named_paths_and_items;

use std::collections::BTreeSet;
use std::fs;

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
    for parent in [
        "src",
        "hooks-sdk",
        "examples-hooks",
        "proto",
        "tests",
        "tests/rust-hooks",
    ] {
        let directory = workspace().join(parent);
        if directory.join("Cargo.toml").is_file() {
            directories.push(parent.to_owned());
        }
        for entry in fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            if entry.path().join("Cargo.toml").is_file() {
                directories.push(format!("{parent}/{}", entry.file_name().to_str().unwrap()));
            }
        }
    }
    directories.sort();
    assert!(
        directories.len() > 25,
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

/// Writes the files of a package, each with its path and source, and returns the modules of its library.
fn package_modules(files: &[(&str, &str)]) -> modules::Modules {
    let package = tempfile::tempdir().unwrap();
    for (path, source) in files {
        let file = package.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, source).unwrap();
    }
    let (root, modules) = modules::of_package(package.path()).pop().unwrap();
    assert_eq!(root, "src/lib.rs");
    modules
}

/// The path is relative to the declaring file, and the modules of the named file are beside that file.
#[test]
fn cycle_through_a_path_attribute_is_reported() {
    let modules = package_modules(&[
        ("src/lib.rs", "mod a;"),
        (
            "src/a.rs",
            "#[path = \"../shared/first.rs\"] #[allow(dead_code)] pub(crate) mod b; mod c;",
        ),
        ("shared/first.rs", "mod inner;"),
        ("shared/inner.rs", "fn f(_: crate::a::c::C) {}"),
        (
            "src/a/c.rs",
            "use super::b; pub struct C; fn f() { b::inner::f(); }",
        ),
    ]);
    let cycles = cycle_search::cycles(&modules);
    assert_eq!(cycles.len(), 1);
    assert_eq!(cycles[0].parent, "a");
    assert_eq!(cycles[0].members, ["b", "c"]);
}

/// The path belongs to the test module, which is left out, and not to the module behind it.
#[test]
fn path_of_a_test_module_is_ignored() {
    let modules = package_modules(&[
        (
            "src/lib.rs",
            "#[path = \"elsewhere.rs\"] #[cfg(test)] mod tests; mod a; mod b;",
        ),
        ("src/a.rs", "use crate::b::B; pub struct A;"),
        ("src/b.rs", "use crate::a::A; pub struct B;"),
    ]);
    assert_eq!(cycle_search::cycles(&modules).len(), 1);
}

#[test]
#[should_panic(expected = "src/lib.rs declares the module a, which has no file")]
fn declared_module_without_a_file_is_reported() {
    package_modules(&[("src/lib.rs", "mod a;")]);
}

#[test]
#[should_panic(expected = "shared/a.rs is missing")]
fn path_attribute_without_a_file_is_reported() {
    package_modules(&[("src/lib.rs", "#[path = \"../shared/a.rs\"] mod a;")]);
}
