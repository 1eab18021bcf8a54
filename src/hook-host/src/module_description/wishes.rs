//! The wishes in a module's description: what the module changes and reads.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use domain_xml::PathPattern;
use serde_json::{Map, Value};

use super::{DescriptionError, is_all_printable, member_error, shorten, unknown_name};
use crate::{MigrationParameter, PodPattern, PodPatternError};

/// Maximum number of wishes in each list.
pub(crate) const MAX_WISHES: usize = 256;
/// Maximum length of a path pattern in bytes.
const MAX_PATTERN_BYTES: usize = 1024;
/// Maximum number of predicates in a path pattern.
const MAX_PREDICATES: usize = 8;

/// What a module declares that it will change and read. Wishes are granted or refused before the first call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wishes {
    /// Patterns of the domain paths that the module changes; each starts with `/domain/`.
    pub paths: Vec<PathPattern>,
    /// The configuration keys that the module reads.
    pub config: Vec<String>,
    /// The directories that the module reads.
    pub dirs: Vec<PathBuf>,
    /// The migration parameters that the module changes.
    pub migration: Vec<MigrationParameter>,
    /// The facts about the pod that the module reads.
    pub pod: Vec<PodPattern>,
}

pub(super) fn parse_wishes(value: Option<&Value>) -> Result<Option<Wishes>, DescriptionError> {
    let object = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(object)) => object,
        Some(other) => return Err(member_error("wishes", "an object", other)),
    };
    let list = |member, expected| string_list(object, member, expected);
    let paths = list("paths", "a list of path patterns")?;
    let config = list("config", "a list of keys")?;
    let dirs = list("dirs", "a list of directories")?;
    let migration = list("migration", "a list of parameters of a migration")?;
    let pod = list("pod", "a list of facts about the pod")?;
    Ok(Some(Wishes {
        paths: parse_each(&paths, |text| {
            domain_pattern(text).map_err(|reason| wish_error("paths", &reason))
        })?,
        config: parse_each(&config, |text| {
            config_key(text).map_err(|reason| wish_error("config", &reason))
        })?,
        dirs: parse_each(&dirs, |text| {
            absolute_directory(text).map_err(|reason| wish_error("dirs", &reason))
        })?,
        migration: parse_each(&migration, migration_parameter)?,
        pod: parse_each(&pod, pod_pattern)?,
    }))
}

fn string_list(
    object: &Map<String, Value>,
    member: &str,
    expected: &'static str,
) -> Result<Vec<String>, DescriptionError> {
    let member_error = |found| member_error(&format!("wishes.{member}"), expected, found);
    match object.get(member) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() > MAX_WISHES => Err(DescriptionError::Wish {
            member: format!("wishes.{member}"),
            reason: format!("{} entries, more than {MAX_WISHES}", list.len()),
        }),
        Some(Value::Array(list)) => list
            .iter()
            .map(|item| {
                item.as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| member_error(item))
            })
            .collect(),
        Some(other) => Err(member_error(other)),
    }
}

fn parse_each<T>(
    texts: &[String],
    parse: impl Fn(&str) -> Result<T, DescriptionError>,
) -> Result<Vec<T>, DescriptionError> {
    texts.iter().map(|text| parse(text)).collect()
}

fn wish_error(member: &str, reason: &impl fmt::Display) -> DescriptionError {
    DescriptionError::Wish {
        member: format!("wishes.{member}"),
        reason: shorten(&reason.to_string()),
    }
}

fn migration_parameter(name: &str) -> Result<MigrationParameter, DescriptionError> {
    MigrationParameter::from_name(name)
        .map_err(|_| unknown_name("wishes.migration", name, MigrationParameter::names()))
}

fn pod_pattern(text: &str) -> Result<PodPattern, DescriptionError> {
    check_printable("fact", text).map_err(|reason| wish_error("pod", &reason))?;
    PodPattern::parse(text).map_err(|error| match error {
        PodPatternError::Unknown(_) => {
            let kinds = PodPattern::KINDS;
            let known = format!("{kinds}; * stands for any characters of KEY or NAME");
            unknown_name("wishes.pod", text, known)
        }
        PodPatternError::TooLong(_) | PodPatternError::EmptyKey(_) => wish_error("pod", &error),
    })
}

/// Parses a path pattern, which must start with `/domain/`. Length and number of predicates are limited, because a
/// pattern is matched against every element that a hook changes.
pub(crate) fn domain_pattern(text: &str) -> Result<PathPattern, String> {
    if text.len() > MAX_PATTERN_BYTES {
        let length = text.len();
        return Err(format!(
            "a path of {length} bytes, more than {MAX_PATTERN_BYTES}"
        ));
    }
    check_printable("path", text)?;
    let pattern = PathPattern::parse(text).map_err(|error| error.to_string())?;
    if pattern.predicates() > MAX_PREDICATES {
        let count = pattern.predicates();
        return Err(format!(
            "path `{text}` has {count} predicates, more than {MAX_PREDICATES}"
        ));
    }
    if text.starts_with("/domain/") {
        Ok(pattern)
    } else {
        Err(format!("path `{text}` does not begin with /domain/"))
    }
}

fn config_key(text: &str) -> Result<String, String> {
    check_printable("key", text)?;
    Ok(text.to_owned())
}

/// Parses the path of a directory, which must be absolute and without `.` and `..`.
pub(crate) fn absolute_directory(text: &str) -> Result<PathBuf, String> {
    check_printable("directory", text)?;
    let path = Path::new(text);
    let has_only_names = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if path.is_absolute() && has_only_names && !text.split('/').any(|part| part == ".") {
        Ok(path.components().collect())
    } else {
        Err(format!(
            "{text:?} is not an absolute path without `.` and `..`"
        ))
    }
}

/// Refuses unprintable characters in a wish. Wishes are printed as a policy that operators copy, and some unprintable
/// characters end a line in YAML.
fn check_printable(what: &str, text: &str) -> Result<(), String> {
    match is_all_printable(text) {
        true => Ok(()),
        false => Err(format!("{what} {text:?} has unprintable characters")),
    }
}
