//! The description that a module returns from `describe`.

mod error;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::fmt;
use std::path::{Component, Path, PathBuf};

use domain_xml::PathPattern;
use serde_json::{Map, Value};

use crate::printable::{is_printable, printable};
use crate::{HookPoint, MigrationParameter, PodPattern};

pub use error::DescriptionError;

/// The longest description in bytes.
const MAX_BYTES: usize = 64 << 10;
/// The longest name or version in bytes: they appear in logs.
const MAX_NAME: usize = 253;
/// The most wishes of each list.
pub(crate) const MAX_WISHES: usize = 256;
/// The longest path pattern in bytes.
const MAX_PATTERN: usize = 1024;
/// The most predicates of a path pattern.
const MAX_PREDICATES: usize = 8;

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

/// What a module declares that it will do. Wishes are granted or refused before the first call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wishes {
    /// Patterns of the domain paths that it changes, from `/domain/` on.
    pub paths: Vec<PathPattern>,
    /// The configuration keys that it reads.
    pub config: Vec<String>,
    /// The directories that it reads.
    pub dirs: Vec<PathBuf>,
    /// The parameters of a migration that it changes.
    pub migration: Vec<MigrationParameter>,
    /// The facts about the pod that it reads.
    pub pod: Vec<PodPattern>,
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
        if text.len() > MAX_BYTES {
            return Err(DescriptionError::TooLong(text.len()));
        }
        let object: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| DescriptionError::NotAnObject(error.to_string()))?;
        Ok(Self {
            name: name(&object, "name")?,
            version: name(&object, "version")?,
            hook_points: hook_points(object.get("hookPoints"))?,
            wishes: wishes(object.get("wishes"))?,
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
    let found = subscriptions.iter().find(|one| one.point == point);
    found.map(|one| one.priority)
}

fn name(object: &Map<String, Value>, member: &str) -> Result<String, DescriptionError> {
    match object.get(member) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) if text.len() <= MAX_NAME && is_all_printable(text) => {
            Ok(text.clone())
        }
        Some(other) => Err(wrong(
            member,
            "a string of at most 253 printable bytes",
            other,
        )),
    }
}

fn is_all_printable(text: &str) -> bool {
    text.chars().all(is_printable)
}

/// Wishes are printed as a policy that operators copy, and to YAML some unprintable characters end a line.
fn printable_wish(what: &str, text: &str) -> Result<(), String> {
    match is_all_printable(text) {
        true => Ok(()),
        false => Err(format!("{what} {text:?} has unprintable characters")),
    }
}

fn hook_points(value: Option<&Value>) -> Result<Vec<Subscription>, DescriptionError> {
    let list = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(wrong("hookPoints", "a list", other)),
    };
    let mut points: Vec<Subscription> = Vec::new();
    for item in list {
        let point = subscription(item)?;
        // If a hook point is named twice, the first entry counts, as in KubeVirt's sidecars.
        if !points.iter().any(|known| known.point == point.point) {
            points.push(point);
        }
    }
    Ok(points)
}

fn wishes(value: Option<&Value>) -> Result<Option<Wishes>, DescriptionError> {
    let object = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(object)) => object,
        Some(other) => return Err(wrong("wishes", "an object", other)),
    };
    let read = |member, expected| strings(object, member, expected);
    let paths = read("paths", "a list of path patterns")?;
    let config = read("config", "a list of keys")?;
    let dirs = read("dirs", "a list of directories")?;
    let migration = read("migration", "a list of parameters of a migration")?;
    let pod = read("pod", "a list of facts about the pod")?;
    Ok(Some(Wishes {
        paths: each("paths", paths, domain_pattern)?,
        config: each("config", config, config_key)?,
        dirs: each("dirs", dirs, absolute_directory)?,
        migration: each("migration", migration, MigrationParameter::from_name)?,
        pod: each("pod", pod, PodPattern::parse)?,
    }))
}

fn strings(
    object: &Map<String, Value>,
    member: &str,
    expected: &'static str,
) -> Result<Vec<String>, DescriptionError> {
    let wrong = |found| wrong(&format!("wishes.{member}"), expected, found);
    match object.get(member) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() > MAX_WISHES => Err(DescriptionError::Wish {
            member: format!("wishes.{member}"),
            reason: format!("{} entries, more than {MAX_WISHES}", list.len()),
        }),
        Some(Value::Array(list)) => list
            .iter()
            .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong(item)))
            .collect(),
        Some(other) => Err(wrong(other)),
    }
}

fn each<T, E: fmt::Display>(
    member: &str,
    texts: Vec<String>,
    read: fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, DescriptionError> {
    let read = |text: String| {
        read(&text).map_err(|reason| DescriptionError::Wish {
            member: format!("wishes.{member}"),
            reason: shorten(&reason.to_string()),
        })
    };
    texts.into_iter().map(read).collect()
}

/// Parses a path pattern that starts at `/domain/`. Length and predicates are limited, because a
/// pattern is matched against every element that a hook changes.
pub(crate) fn domain_pattern(text: &str) -> Result<PathPattern, String> {
    if text.len() > MAX_PATTERN {
        let length = text.len();
        return Err(format!("a path of {length} bytes, more than {MAX_PATTERN}"));
    }
    printable_wish("path", text)?;
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
    printable_wish("key", text)?;
    Ok(text.to_owned())
}

/// Parses an absolute directory without `.` and `..` in it.
pub(crate) fn absolute_directory(text: &str) -> Result<PathBuf, String> {
    printable_wish("directory", text)?;
    let path = Path::new(text);
    let plain = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if path.is_absolute() && plain && !text.split('/').any(|part| part == ".") {
        Ok(path.components().collect())
    } else {
        Err(format!(
            "{text:?} is not an absolute path without `.` and `..`"
        ))
    }
}

fn subscription(item: &Value) -> Result<Subscription, DescriptionError> {
    let Some(Value::String(name)) = item.get("name") else {
        return Err(wrong("hookPoints[]", "an object with a name", item));
    };
    let point = HookPoint::from_name(name)
        .ok_or_else(|| DescriptionError::UnknownHookPoint(shorten(name)))?;
    let priority = match item.get("priority") {
        None | Some(Value::Null) => 0,
        Some(value) => value
            .as_i64()
            .and_then(|number| i32::try_from(number).ok())
            .ok_or_else(|| wrong("hookPoints[].priority", "a 32-bit integer", value))?,
    };
    Ok(Subscription { point, priority })
}

fn wrong(member: &str, expected: &'static str, found: &Value) -> DescriptionError {
    DescriptionError::Member {
        member: member.to_owned(),
        expected,
        found: shorten(&found.to_string()),
    }
}

fn shorten(text: &str) -> String {
    printable(text, 160)
}
