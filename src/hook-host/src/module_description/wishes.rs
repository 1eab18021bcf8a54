//! The wishes in a module's description: what the module changes and reads.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{DescriptionError, member_error, shorten, unknown_name};
use crate::absolute_directory::absolute_directory;
use crate::printable::{UnprintableText, check_printable};
use crate::{ConditionedPath, MigrationParameter, PodPattern, PodPatternError};

/// Maximum number of wishes in each list.
pub(crate) const MAX_WISHES: usize = 256;
/// The type of `wishes.paths`.
const PATHS: &str = "a list of path patterns, some with conditions";

/// What a module declares that it will change and read. Wishes are granted or refused before the first call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wishes {
    /// Patterns of the domain paths that the module changes, each from `/domain/` on, and what it writes there.
    pub paths: Vec<ConditionedPath>,
    /// The configuration keys that the module reads.
    pub config: Vec<String>,
    /// The directories that the module reads.
    pub dirs: Vec<PathBuf>,
    /// The migration parameters that the module changes.
    pub migration: Vec<MigrationParameter>,
    /// The facts about the pod that the module reads.
    pub pod: Vec<PodPattern>,
}

impl Wishes {
    /// What the paths stand for: themselves, and after all of them the own attributes of the elements in which they end.
    /// The lists of policies do not include attributes, so that they grant what they say.
    #[must_use]
    pub fn paths_with_attributes(&self) -> Vec<ConditionedPath> {
        let attributes = self
            .paths
            .iter()
            .filter_map(ConditionedPath::own_attributes);
        self.paths.iter().cloned().chain(attributes).collect()
    }
}

pub(super) fn parse_wishes(value: Option<&Value>) -> Result<Option<Wishes>, DescriptionError> {
    let object = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(object)) => object,
        Some(other) => return Err(member_error("wishes", "an object", other)),
    };
    let list = |member, expected| string_list(object, member, expected);
    let paths = wish_list(object, "paths", PATHS)?;
    let config = list("config", "a list of keys")?;
    let dirs = list("dirs", "a list of directories")?;
    let migration = list("migration", "a list of parameters of a migration")?;
    let pod = list("pod", "a list of facts about the pod")?;
    Ok(Some(Wishes {
        paths: paths.iter().map(path_wish).collect::<Result<_, _>>()?,
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
    let list = wish_list(object, member, expected)?;
    let texts = list.iter().map(|item| match item {
        Value::String(text) => Ok(text.clone()),
        other => Err(member_error(&format!("wishes.{member}"), expected, other)),
    });
    texts.collect()
}

/// The values of a list of wishes.
fn wish_list<'a>(
    object: &'a Map<String, Value>,
    member: &str,
    expected: &'static str,
) -> Result<&'a [Value], DescriptionError> {
    match object.get(member) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) if list.len() > MAX_WISHES => Err(DescriptionError::Wish {
            member: format!("wishes.{member}"),
            reason: format!("{} entries, more than {MAX_WISHES}", list.len()),
        }),
        Some(Value::Array(list)) => Ok(list),
        Some(other) => Err(member_error(&format!("wishes.{member}"), expected, other)),
    }
}

/// A path, or an object with a path and a condition. Unlike unknown members elsewhere, those of the object are refused:
/// without a condition that this host does not know, the module would be granted more than it declares.
fn path_wish(item: &Value) -> Result<ConditionedPath, DescriptionError> {
    match item {
        Value::String(_) | Value::Object(_) => {
            ConditionedPath::deserialize(item).map_err(|reason| wish_error("paths", &reason))
        }
        other => Err(member_error("wishes.paths", PATHS, other)),
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

fn config_key(text: &str) -> Result<String, UnprintableText> {
    check_printable("key", text)?;
    Ok(text.to_owned())
}
