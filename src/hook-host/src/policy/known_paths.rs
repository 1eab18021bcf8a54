//! Names of libvirt's domain format, to recognise a misspelt path.
//!
//! The table has the names of libvirt 11.3 and 12.8. A newer release has more: what is unknown is worth a hint, never a
//! refusal. It has one line per element name, with what the element contains in any place: `PARENT: CHILD @ATTRIBUTE`.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use super::pattern_subset::steps;

type Table = BTreeMap<&'static str, Vec<&'static str>>;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let lines = include_str!("known_paths/libvirt_names.txt").lines();
    let entries = lines.filter_map(|line| line.split_once(':'));
    let entries = entries.map(|(parent, names)| (parent, names.split_whitespace().collect()));
    entries.collect()
});

/// The name of the parent of `domain`.
const ROOT: &str = "";
/// Holds documents of any application.
const METADATA: &str = "metadata";
/// The longest name, in bytes, that is compared with similar ones.
const MAX_NAME: usize = 48;

/// A path of which libvirt's domain format has no such element or attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPath {
    /// The path up to the name that is unknown.
    unknown: String,
    /// The whole path with known names instead.
    similar: Option<String>,
}

impl UnknownPath {
    /// How each text about an unknown path begins.
    pub const PREFIX: &'static str = "libvirt's domain has no ";

    /// Checks a path pattern, or the path of a change. Wildcards, what is below them, prefixed names and metadata are
    /// not judged.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        let mut parent = Some(ROOT);
        let mut unknown = None;
        let (mut passed, mut corrected) = (String::new(), String::new());
        for step in steps(path) {
            passed += &format!("/{}", step.name);
            match name_in(parent, step.name) {
                Name::NotJudged => {
                    parent = None;
                    corrected += &format!("/{}", step.name);
                }
                Name::Known(name) => {
                    parent = Some(name).filter(|name| *name != METADATA);
                    corrected += &format!("/{name}");
                }
                Name::Unknown { similar } => {
                    unknown.get_or_insert_with(|| passed.clone());
                    let Some(similar) = similar else {
                        return unknown.map(|unknown| Self {
                            unknown,
                            similar: None,
                        });
                    };
                    parent = similar.last().copied();
                    corrected += &format!("/{}", similar.join("/"));
                }
            }
            for predicate in &step.predicates {
                passed += &format!("{predicate}]");
                let (known, is_known) = corrected_predicate(parent, predicate);
                corrected += &format!("{known}]");
                if !is_known {
                    unknown.get_or_insert_with(|| passed.clone());
                }
            }
        }
        unknown.map(|unknown| Self {
            similar: Some(corrected).filter(|corrected| *corrected != passed),
            unknown,
        })
    }
}

impl fmt::Display for UnknownPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} (as of libvirt 12.8)", Self::PREFIX, self.unknown)?;
        match &self.similar {
            Some(similar) => write!(f, ": is it {similar}?"),
            None => f.write_str("."),
        }
    }
}

enum Name {
    Known(&'static str),
    /// Nothing is known about it, or about its parent.
    NotJudged,
    Unknown {
        /// The steps that were probably meant.
        similar: Option<Vec<&'static str>>,
    },
}

fn name_in(parent: Option<&str>, name: &str) -> Name {
    let is_special = name.contains([':', '*']) || name.is_empty() || name == ".";
    let Some(children) = parent.and_then(|parent| TABLE.get(parent)) else {
        return Name::NotJudged;
    };
    let is_open = children.iter().any(|child| matches!(*child, "*" | "@*"));
    match children.iter().find(|child| **child == name) {
        Some(known) => Name::Known(known),
        None if is_special || is_open => Name::NotJudged,
        None => Name::Unknown {
            similar: similar(children, name),
        },
    }
}

/// A predicate with known names, and whether its own are.
fn corrected_predicate(parent: Option<&str>, predicate: &str) -> (String, bool) {
    let end = predicate.find(['=', '!']).unwrap_or(predicate.len());
    let (left, value) = predicate.split_at(end);
    let path = left.trim_start_matches('[').trim();
    if path.starts_with(|c: char| c.is_ascii_digit()) || path.contains('(') {
        return (predicate.to_owned(), true);
    }
    let (mut parent, mut is_known) = (parent, true);
    let mut names = Vec::new();
    for name in path.split('/') {
        match name_in(parent, name) {
            Name::Known(known) => {
                parent = Some(known);
                names.push(name);
            }
            Name::Unknown {
                similar: Some(similar),
            } => {
                is_known = false;
                parent = similar.last().copied();
                names.extend(similar);
            }
            found => {
                is_known &= matches!(found, Name::NotJudged);
                parent = None;
                names.push(name);
            }
        }
    }
    (format!("[{}{value}", names.join("/")), is_known)
}

/// The steps that lead to what was meant: a step that was left out, or a similar name.
fn similar(children: &[&'static str], name: &str) -> Option<Vec<&'static str>> {
    if name.len() > MAX_NAME {
        return None;
    }
    let left_out = children.iter().find_map(|child| {
        let grandchildren = TABLE.get(child)?;
        let known = grandchildren.iter().find(|known| **known == name)?;
        Some(vec![*child, *known])
    });
    let is_attribute = name.starts_with('@');
    let alike = children
        .iter()
        .filter(|child| child.starts_with('@') == is_attribute);
    let rated = alike.map(|child| (distance(name, child), *child));
    let most = (name.len() / 3).max(1);
    let nearest = rated.filter(|(distance, _)| *distance <= most).min();
    nearest.map(|(_, child)| vec![child]).or(left_out)
}

/// The number of characters that are missing, added, replaced or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    let at = |rows: &[Vec<usize>], row: usize, column: usize| {
        let value = rows.get(row).and_then(|row| row.get(column));
        value.copied().unwrap_or(usize::MAX / 2)
    };
    for (row, a) in (1..).zip(&one) {
        rows.push(vec![row]);
        for (column, b) in (1..).zip(&other) {
            let replaced = at(&rows, row - 1, column - 1) + usize::from(a != b);
            let moved = at(&rows, row - 1, column).min(at(&rows, row, column - 1)) + 1;
            let is_swapped = row > 1
                && column > 1
                && one.get(row - 2) == Some(b)
                && other.get(column - 2) == Some(a);
            let swapped = match is_swapped {
                true => at(&rows, row - 2, column - 2) + 1,
                false => usize::MAX,
            };
            let least = replaced.min(moved).min(swapped);
            rows.last_mut()
                .into_iter()
                .for_each(|last| last.push(least));
        }
    }
    at(&rows, one.len(), other.len())
}
