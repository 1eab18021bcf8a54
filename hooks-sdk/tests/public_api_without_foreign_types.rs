//! No signature of the API names a third-party crate's type, so that hooks are bound to no version of one:
//! `docs/decisions/0014-serde-in-the-sdk.md`. A scan of the sources: it reads `use` lines, and the signatures of public
//! items.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

/// The crates that are not ours, by their names in the sources.
const FOREIGN: [&str; 6] = [
    "serde_json",
    "serde_core",
    "serde",
    "elsa",
    "wit_bindgen",
    "thiserror",
];

/// The crates that are published, from this one's directory.
const SOURCES: [&str; 3] = ["src", "../src/domain-xml/src", "../src/quantity/src"];

/// What may name a foreign type: the file, and the beginning of the item.
const EXCEPTIONS: [(&str, &str); 5] = [
    // The decision's exceptions.
    ("vmi/json.rs", "pub fn read<T: Deserialize"),
    ("json_value.rs", "impl Serialize for Value"),
    ("quantity.rs", "impl<'de> Deserialize<'de> for Quantity"),
    // Exported by the hidden module `__private` alone.
    ("json_value.rs", "pub fn value_of("),
    ("lib.rs", "pub use serde_json;"),
];

#[test]
fn no_public_signature_names_a_foreign_type() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut used = [false; EXCEPTIONS.len()];
    for file in SOURCES
        .iter()
        .flat_map(|sources| files(&root.join(sources)))
    {
        let text = fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let names = foreign_names(text);
        for item in public_items(text) {
            if !names.iter().any(|name| mentions(&item, name)) {
                continue;
            }
            let mut exceptions = EXCEPTIONS.iter();
            match exceptions
                .position(|(path, start)| file.ends_with(path) && item.starts_with(start))
            {
                Some(number) => used[number] = true,
                None => found.push(format!("{}: {item}", file.display())),
            }
        }
    }
    assert!(
        found.is_empty(),
        "public items with foreign types:\n{}",
        found.join("\n")
    );
    assert_eq!(used, [true; EXCEPTIONS.len()], "an exception is not needed");
}

#[test]
fn the_scan_finds_imported_and_written_out_names() {
    let text = "use serde_json::{Map, Value as JsonValue};\n\
        pub fn a(value: &JsonValue) -> u8 {\n\
        pub fn b(\n    map: Map,\n) {\n\
        pub(crate) fn c(map: Map) {\n\
        pub fn d() -> elsa::FrozenVec<u8> {\n\
        impl From<Map> for Own {\n\
        pub field: Map,\n\
        pub fn e(value: Value) {\n";
    let names = foreign_names(text);
    let items = public_items(text).into_iter();
    let found: Vec<String> = items
        .filter(|item| names.iter().any(|name| mentions(item, name)))
        .collect();
    assert_eq!(
        found,
        [
            "pub fn a(value: &JsonValue) -> u8",
            "pub fn b( map: Map, )",
            "pub fn d() -> elsa::FrozenVec<u8>",
            "impl From<Map> for Own",
            "pub field: Map,",
        ]
    );
}

/// The Rust files of the API, without tests.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            files.extend(files_of(&path, name));
        } else if name.ends_with(".rs") && name != "tests.rs" {
            files.push(path);
        }
    }
    files
}

fn files_of(path: &Path, name: &str) -> Vec<PathBuf> {
    match name {
        "tests" => Vec::new(),
        _ => files(path),
    }
}

/// The names by which a file knows foreign types: the crates', and what it imports from them.
fn foreign_names(text: &str) -> Vec<String> {
    let mut names: Vec<String> = FOREIGN.iter().map(|name| format!("{name}::")).collect();
    names.push("serde_json;".to_owned());
    for import in text
        .split("\nuse ")
        .skip(1)
        .chain(text.strip_prefix("use "))
    {
        let import = import.split(';').next().unwrap();
        let crate_name = import.split("::").next().unwrap();
        if !FOREIGN.contains(&crate_name) {
            continue;
        }
        let parts = import.split(['{', '}', ',', ':']).map(str::trim);
        let imported = parts.map(|part| part.rsplit(" as ").next().unwrap());
        let types = imported.filter(|name| name.starts_with(char::is_uppercase));
        names.extend(types.map(str::to_owned));
    }
    names
}

/// The public items and trait implementations, each up to its body, on one line.
fn public_items(text: &str) -> Vec<String> {
    let mut items = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let is_trait_impl = line.starts_with("impl") && line.contains(" for ");
        // Public fields of a struct with named ones are lines of their own.
        let is_private_field = line.starts_with("pub struct") && !line.contains("(pub");
        if !line.starts_with("pub ") && !is_trait_impl || is_private_field {
            continue;
        }
        let mut item = line.to_owned();
        while !item.ends_with(['{', ';', ',', '}']) || item.ends_with(',') && is_open(&item) {
            let Some(next) = lines.next() else { break };
            item = format!("{item} {next}");
        }
        items.push(item.trim_end_matches('{').trim_end().to_owned());
    }
    items
}

/// Whether a parenthesis or bracket of the item is not closed yet.
fn is_open(item: &str) -> bool {
    let count = |wanted: char| item.matches(wanted).count();
    count('(') > count(')') || count('[') > count(']') || !item.contains(':')
}

/// Whether the item contains the name as a word.
fn mentions(item: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    item.match_indices(name).any(|(at, _)| {
        let (before, after) = (&item[..at], &item[at + name.len()..]);
        !before.ends_with(is_part)
            && !before.ends_with("crate::")
            && (name.ends_with([':', ';']) || !after.starts_with(is_part))
    })
}
