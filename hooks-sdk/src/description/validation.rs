//! The host's rules on descriptions, so that native tests find what the host would refuse. The host's own copy is
//! `src/hook-host/src/module_description.rs`; `hooks-sdk/testing/tests/sdk_validates_like_host.rs` compares them.

use domain_xml::PathPattern;

use super::{Description, PathWish};

/// The maximum length of a description in bytes.
const MAX_BYTES: usize = 64 << 10;
/// The maximum length of a name or version in bytes.
const MAX_NAME: usize = 253;
/// The maximum number of wishes in each list.
const MAX_WISHES: usize = 256;
/// The maximum length of a path in bytes.
const MAX_PATH: usize = 1024;
/// The maximum number of predicates in a path.
const MAX_PREDICATES: usize = 8;
/// The maximum length of a pattern of facts in bytes.
const MAX_FACT: usize = 512;

/// The lists of facts about the pod, and the facts that stand alone.
const FACT_LISTS: [&str; 3] = ["annotations/", "labels/", "network-status/"];
const SINGLE_FACTS: [&str; 2] = ["default-network", "network-info"];

impl Description {
    /// Checks what the host checks before it accepts a module. The error names the method that was given the invalid
    /// value.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (method, name) in [("with_name", &self.name), ("with_version", &self.version)] {
            if name.len() > MAX_NAME || !is_all_printable(name) {
                return Err(format!(
                    "Description::{method}: {name:?} is not a text of at most {MAX_NAME} printable bytes"
                ));
            }
        }
        if let Some(wishes) = &self.wishes {
            check_each("with_paths", &wishes.paths, check_path_wish)?;
            check_each("with_config", &wishes.config, |key| printable("key", key))?;
            check_each("with_dirs", &wishes.dirs, |dir| check_directory(dir))?;
            check_each("with_pod_facts", &wishes.pod, |fact| check_fact(fact))?;
        }
        match self.to_json().len() {
            length if length > MAX_BYTES => Err(format!(
                "the description has {length} bytes, more than {MAX_BYTES}"
            )),
            _ => Ok(()),
        }
    }
}

fn check_each<T>(
    method: &str,
    texts: &[T],
    check: impl Fn(&T) -> Result<(), String>,
) -> Result<(), String> {
    let in_method = |reason: String| format!("Description::{method}: {reason}");
    if texts.len() > MAX_WISHES {
        let count = texts.len();
        return Err(in_method(format!(
            "{count} entries, more than {MAX_WISHES}"
        )));
    }
    let mut texts = texts.iter();
    texts.try_for_each(|text| check(text).map_err(in_method))
}

fn check_path_wish(wish: &PathWish) -> Result<(), String> {
    check_path(&wish.path)?;
    let Some(condition) = &wish.condition else {
        return Ok(());
    };
    let path = &wish.path;
    if path.ends_with('*') {
        return Err(format!(
            "path `{path}` ends in a wildcard, and a condition is about one value"
        ));
    }
    condition
        .check()
        .map_err(|reason| format!("path `{path}`: {reason}"))
}

fn check_path(path: &str) -> Result<(), String> {
    if path.len() > MAX_PATH {
        let length = path.len();
        return Err(format!("a path of {length} bytes, more than {MAX_PATH}"));
    }
    printable("path", path)?;
    let pattern = PathPattern::parse(path).map_err(|error| error.to_string())?;
    if pattern.predicates() > MAX_PREDICATES {
        let count = pattern.predicates();
        return Err(format!(
            "path `{path}` has {count} predicates, more than {MAX_PREDICATES}"
        ));
    }
    match path.starts_with("/domain/") {
        true => Ok(()),
        false => Err(format!("path `{path}` does not begin with /domain/")),
    }
}

pub(super) fn check_directory(directory: &str) -> Result<(), String> {
    printable("directory", directory)?;
    let has_dots = directory.split('/').any(|part| matches!(part, "." | ".."));
    match directory.starts_with('/') && !has_dots {
        true => Ok(()),
        false => Err(format!(
            "{directory:?} is not an absolute path without `.` and `..`"
        )),
    }
}

fn check_fact(fact: &str) -> Result<(), String> {
    if fact.len() > MAX_FACT {
        let length = fact.len();
        return Err(format!("a fact of {length} bytes, more than {MAX_FACT}"));
    }
    let mut keys = FACT_LISTS.iter().filter_map(|list| fact.strip_prefix(list));
    let is_known = SINGLE_FACTS.contains(&fact) || keys.any(|key| !key.is_empty());
    match is_known && is_all_printable(fact) {
        true => Ok(()),
        false => Err(format!(
            "{fact:?} is not a fact about a pod; there are annotations/KEY, labels/KEY, network-status/NAMESPACE/NAME, \
             default-network, network-info, and * stands for any characters of KEY or NAME"
        )),
    }
}

pub(super) fn printable(what: &str, text: &str) -> Result<(), String> {
    match is_all_printable(text) {
        true => Ok(()),
        false => Err(format!("{what} {text:?} has unprintable characters")),
    }
}

fn is_all_printable(text: &str) -> bool {
    text.chars().all(is_printable)
}

/// Whether a character prints as itself: no control, no line or paragraph separator, nothing invisible, nothing that
/// changes the direction of text. The same as `is_printable` of `src/hook-host/src/printable.rs`.
fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}
