//! The description that a module returns from `describe`.

mod error;
#[cfg(test)]
mod tests;
mod wishes;

use serde_json::{Map, Value};

use crate::HookPoint;
use crate::printable::{is_printable, printable};

pub use error::DescriptionError;
pub(crate) use wishes::MAX_WISHES;
pub use wishes::Wishes;
use wishes::parse_wishes;

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
