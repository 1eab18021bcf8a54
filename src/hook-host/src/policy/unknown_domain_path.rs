//! Paths that libvirt's domain format does not have, with a known path that was probably meant.
//!
//! `libvirt_names.txt` has the names of libvirt 11.3 and 12.8. A newer release can have more, so an unknown name leads
//! to a hint and never to a refusal. Each line has an element's name, and the names of all children and attributes that
//! the element has anywhere in a domain: `PARENT: CHILD @ATTRIBUTE`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use super::pattern_subset::steps;

type Table = BTreeMap<&'static str, Vec<&'static str>>;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let lines = include_str!("unknown_domain_path/libvirt_names.txt").lines();
    let entries = lines.filter_map(|line| line.split_once(':'));
    let entries = entries.map(|(parent, names)| (parent, names.split_whitespace().collect()));
    entries.collect()
});

/// The name in the table of the parent of `domain`.
const ROOT_PARENT: &str = "";
/// The element whose content applications choose freely.
const METADATA: &str = "metadata";
/// Maximum length in bytes of a name that is compared with known names.
const MAX_COMPARED_NAME: usize = 48;

/// A path with an element or attribute that libvirt's domain format does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPath {
    /// The path up to the unknown name.
    unknown: String,
    /// The whole path with similar known names.
    similar: Option<String>,
}

impl UnknownPath {
    /// The beginning of the text of each unknown path.
    pub const PREFIX: &'static str = "libvirt's domain has no ";

    /// Checks a path pattern, or the path of a change; `None` if all names are known. Wildcards, names below them,
    /// prefixed names and metadata are not checked.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        let mut parent = Some(ROOT_PARENT);
        let mut unknown = None;
        let (mut checked, mut corrected) = (String::new(), String::new());
        for step in steps(path) {
            checked += &format!("/{}", step.name);
            match check_name(parent, step.name) {
                CheckedName::NotChecked => {
                    parent = None;
                    corrected += &format!("/{}", step.name);
                }
                CheckedName::Known(name) => {
                    parent = Some(name).filter(|name| *name != METADATA);
                    corrected += &format!("/{name}");
                }
                CheckedName::Unknown { similar } => {
                    unknown.get_or_insert_with(|| checked.clone());
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
                checked += &format!("{predicate}]");
                let (corrected_text, is_known) = correct_predicate(parent, predicate);
                corrected += &format!("{corrected_text}]");
                if !is_known {
                    unknown.get_or_insert_with(|| checked.clone());
                }
            }
        }
        unknown.map(|unknown| Self {
            similar: Some(corrected).filter(|corrected| *corrected != checked),
            unknown,
        })
    }
}

/// Whether the element in which a path ends has attributes in libvirt's domain format, or is unknown to this list.
#[must_use]
pub fn may_have_attributes(path: &str) -> bool {
    let Some(name) = steps(path).last().map(|step| step.name) else {
        return false;
    };
    match TABLE.get(name) {
        Some(names) => names.iter().any(|name| name.starts_with('@')),
        None => !TABLE.values().any(|children| children.contains(&name)),
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

/// A name, compared with the table.
enum CheckedName {
    Known(&'static str),
    /// The table has no names for the parent, or does not know such names.
    NotChecked,
    Unknown {
        /// The known steps that were probably meant.
        similar: Option<Vec<&'static str>>,
    },
}

fn check_name(parent: Option<&str>, name: &str) -> CheckedName {
    let is_special = name.contains([':', '*']) || name.is_empty() || name == ".";
    let Some(children) = parent.and_then(|parent| TABLE.get(parent)) else {
        return CheckedName::NotChecked;
    };
    let permits_any_name = children.iter().any(|child| matches!(*child, "*" | "@*"));
    match children.iter().find(|child| **child == name) {
        Some(known) => CheckedName::Known(known),
        None if is_special || permits_any_name => CheckedName::NotChecked,
        None => CheckedName::Unknown {
            similar: similar_steps(children, name),
        },
    }
}

/// The predicate with similar known names, and whether all its own names are known.
fn correct_predicate(parent: Option<&str>, predicate: &str) -> (String, bool) {
    let end = predicate.find(['=', '!']).unwrap_or(predicate.len());
    let (left, value) = predicate.split_at(end);
    let path = left.trim_start_matches('[').trim();
    if path.starts_with(|c: char| c.is_ascii_digit()) || path.contains('(') {
        return (predicate.to_owned(), true);
    }
    let (mut parent, mut is_known) = (parent, true);
    let mut names = Vec::new();
    for name in path.split('/') {
        match check_name(parent, name) {
            CheckedName::Known(known) => {
                parent = Some(known);
                names.push(name);
            }
            CheckedName::Unknown {
                similar: Some(similar),
            } => {
                is_known = false;
                parent = similar.last().copied();
                names.extend(similar);
            }
            not_corrected => {
                is_known &= matches!(not_corrected, CheckedName::NotChecked);
                parent = None;
                names.push(name);
            }
        }
    }
    (format!("[{}{value}", names.join("/")), is_known)
}

/// The known steps that were probably meant: a similar name, or the name after a step that was left out.
fn similar_steps(children: &[&'static str], name: &str) -> Option<Vec<&'static str>> {
    if name.len() > MAX_COMPARED_NAME {
        return None;
    }
    let with_missing_step = children.iter().find_map(|child| {
        let grandchildren = TABLE.get(child)?;
        let known = grandchildren.iter().find(|known| **known == name)?;
        Some(vec![*child, *known])
    });
    let is_attribute = name.starts_with('@');
    let same_kind = children
        .iter()
        .filter(|child| child.starts_with('@') == is_attribute);
    let rated = same_kind.map(|child| (edit_distance(name, child), *child));
    let max_distance = (name.len() / 3).max(1);
    let nearest = rated
        .filter(|(distance, _)| *distance <= max_distance)
        .min();
    nearest.map(|(_, child)| vec![child]).or(with_missing_step)
}

/// The number of characters that are missing, added, replaced or swapped with their neighbour.
fn edit_distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    let at = |rows: &[Vec<usize>], row: usize, column: usize| {
        let value = rows.get(row).and_then(|row| row.get(column));
        value.copied().unwrap_or(usize::MAX / 2)
    };
    for (row, a) in (1..).zip(&left) {
        rows.push(vec![row]);
        for (column, b) in (1..).zip(&right) {
            let replaced = at(&rows, row - 1, column - 1) + usize::from(a != b);
            let moved = at(&rows, row - 1, column).min(at(&rows, row, column - 1)) + 1;
            let is_swapped = row > 1
                && column > 1
                && left.get(row - 2) == Some(b)
                && right.get(column - 2) == Some(a);
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
    at(&rows, left.len(), right.len())
}

#[cfg(test)]
mod tests;
