//! The description that a module returns from `describe`.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::absolute_directory::absolute_directory;
use crate::printable::{UnprintableText, check_printable, is_printable, printable};
use crate::wit_package::{NEWEST_VERSION, PACKAGE};
use crate::{ConditionedPath, HookPoint, MigrationParameter, PodPattern, PodPatternError};

/// Maximum size of a description in bytes.
const MAX_DESCRIPTION_BYTES: usize = 64 << 10;
/// Maximum length of a name or version in bytes. They appear in logs.
const MAX_NAME_BYTES: usize = 253;

/// The description that a module returns from `describe`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Description {
    /// The hook's name.
    pub name: String,
    /// The hook's version; empty if it has none.
    pub version: String,
    /// The hook points that the hook subscribes to.
    pub hook_points: Vec<Subscription>,
    /// The declared wishes; `None` if the description has none.
    pub wishes: Option<Wishes>,
}

/// A hook point that a hook subscribes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscription {
    /// The hook point.
    pub point: HookPoint,
    /// Hooks with higher priority run first.
    pub priority: i32,
}

impl Description {
    /// Parses the text from `describe`. Unknown members are ignored, missing ones are empty.
    pub fn parse(text: &str) -> Result<Self, DescriptionError> {
        if text.len() > MAX_DESCRIPTION_BYTES {
            return Err(DescriptionError::TooLong(text.len()));
        }
        let object: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| DescriptionError::NotAnObject(error.to_string()))?;
        Ok(Self {
            name: name_member(&object, "name")?,
            version: name_member(&object, "version")?,
            hook_points: hook_points(object.get("hookPoints"))?,
            wishes: parse_wishes(object.get("wishes"))?,
        })
    }

    /// The priority at a hook point, if the hook subscribes to it.
    #[must_use]
    pub fn priority(&self, point: HookPoint) -> Option<i32> {
        priority_at(&self.hook_points, point)
    }
}

/// The priority of the subscription to a hook point.
pub(crate) fn priority_at(subscriptions: &[Subscription], point: HookPoint) -> Option<i32> {
    let mut subscriptions = subscriptions.iter();
    let subscription = subscriptions.find(|subscription| subscription.point == point)?;
    Some(subscription.priority)
}

fn name_member(object: &Map<String, Value>, member: &str) -> Result<String, DescriptionError> {
    match object.get(member) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) if text.len() <= MAX_NAME_BYTES && is_all_printable(text) => {
            Ok(text.clone())
        }
        Some(other) => Err(member_error(
            member,
            "a string of at most 253 printable bytes",
            other,
        )),
    }
}

fn is_all_printable(text: &str) -> bool {
    text.chars().all(is_printable)
}

fn hook_points(value: Option<&Value>) -> Result<Vec<Subscription>, DescriptionError> {
    let list = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(member_error("hookPoints", "a list", other)),
    };
    let mut subscriptions: Vec<Subscription> = Vec::new();
    for item in list {
        let subscription = subscription(item)?;
        // If a hook point is named twice, the first entry counts, as in KubeVirt's sidecars.
        if !subscriptions
            .iter()
            .any(|earlier| earlier.point == subscription.point)
        {
            subscriptions.push(subscription);
        }
    }
    Ok(subscriptions)
}

fn subscription(item: &Value) -> Result<Subscription, DescriptionError> {
    let Some(Value::String(name)) = item.get("name") else {
        return Err(member_error("hookPoints[]", "an object with a name", item));
    };
    let point = HookPoint::from_name(name)
        .ok_or_else(|| unknown_name("hookPoints[].name", name, HookPoint::names()))?;
    let priority = match item.get("priority") {
        None | Some(Value::Null) => 0,
        Some(value) => value
            .as_i64()
            .and_then(|number| i32::try_from(number).ok())
            .ok_or_else(|| member_error("hookPoints[].priority", "a 32-bit integer", value))?,
    };
    Ok(Subscription { point, priority })
}

fn member_error(member: &str, expected: &'static str, found: &Value) -> DescriptionError {
    DescriptionError::Member {
        member: member.to_owned(),
        expected,
        found: shorten(&found.to_string()),
    }
}

fn unknown_name(member: &'static str, name: &str, known: String) -> DescriptionError {
    DescriptionError::UnknownName {
        member,
        name: shorten(name),
        known,
    }
}

fn shorten(text: &str) -> String {
    printable(text, 160)
}

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

fn parse_wishes(value: Option<&Value>) -> Result<Option<Wishes>, DescriptionError> {
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

/// Why a description is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// The text is longer than 64 KiB.
    #[error("its description has {0} bytes, more than {MAX_DESCRIPTION_BYTES}")]
    TooLong(usize),
    /// The text is not a JSON object.
    #[error("its description is not a JSON object: {0}")]
    NotAnObject(String),
    /// A member has the wrong type or range.
    #[error("in its description, {member} should be {expected}, not {found}")]
    Member {
        /// The path of the member.
        member: String,
        /// The expected type.
        expected: &'static str,
        /// The value as JSON, shortened.
        found: String,
    },
    /// A wish is invalid.
    #[error("in its description, {member}: {reason}")]
    Wish {
        /// The list of wishes.
        member: String,
        /// What is invalid.
        reason: String,
    },
    /// The description names a hook point, a migration parameter or a fact about the pod that this host does not have.
    #[error(
        "in its description, {member} has {name:?}, which this host of {PACKAGE}@{NEWEST_VERSION} does not have (it has \
         {known}): correct the name, build the module without it, or use a version of virt-launcher or virt-hook that \
         has it"
    )]
    UnknownName {
        /// The path of the member.
        member: &'static str,
        /// The name, shortened.
        name: String,
        /// The names that this host has.
        known: String,
    },
    /// The description subscribes to a hook point of an optional interface that the module does not export.
    #[error(
        "it wants to be called at {point}, and does not export {interface}: export it, or build the module with an \
         SDK that has this hook point"
    )]
    NoInterface {
        /// The hook point.
        point: HookPoint,
        /// The interface with its version.
        interface: &'static str,
    },
}

#[cfg(test)]
mod tests;
