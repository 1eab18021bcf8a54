//! What a module says of itself.

use std::path::PathBuf;

use domain_xml::PathPattern;
use serde_json::{Map, Value};

use crate::{HookPoint, policy};

/// More than this is no description.
const MAX_BYTES: usize = 64 << 10;
/// Of names and versions, which end up in logs.
const MAX_NAME: usize = 253;

/// What a module says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// Its version, empty when it has none.
    pub version: String,
    /// Where it wants to be called.
    pub hook_points: Vec<Subscription>,
    /// What it wants to do; `None` when it does not say.
    pub wishes: Option<Wishes>,
}

/// What a module wants to do, and is granted or not before it is ever called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wishes {
    /// What it will change of the domain, from `/domain/` on.
    pub paths: Vec<PathPattern>,
    /// The configuration keys that it reads.
    pub config: Vec<String>,
    /// The directories that it reads.
    pub dirs: Vec<PathBuf>,
}

/// A hook point that a hook wants to be called at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscription {
    /// Where.
    pub point: HookPoint,
    /// Higher ones run first.
    pub priority: i32,
}

/// A description that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// It is longer than 64 KiB.
    #[error("its description has {0} bytes, more than {MAX_BYTES}")]
    TooLong(usize),
    /// It is not a JSON object.
    #[error("its description is no JSON object: {0}")]
    NotAnObject(String),
    /// A member has another type or range than it should.
    #[error("in its description, {member} should be {expected}, not {found}")]
    Member {
        /// Which.
        member: String,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// A wish cannot be read.
    #[error("in its description, {member}: {reason}")]
    Wish {
        /// Which list.
        member: String,
        /// What is wrong.
        reason: String,
    },
    /// It names a hook point that this host does not know.
    #[error(
        "it wants to be called at {0:?}, which is none of PreStart, PreCloudInitIso, OnDefineDomain, Shutdown"
    )]
    UnknownHookPoint(String),
}

impl Description {
    /// Reads what `describe` gave. Unknown members are ignored, missing ones are empty.
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

    /// The priority at a hook point, if the hook wants to be called there.
    #[must_use]
    pub fn priority(&self, point: HookPoint) -> Option<i32> {
        self.hook_points
            .iter()
            .find(|s| s.point == point)
            .map(|s| s.priority)
    }
}

fn name(object: &Map<String, Value>, member: &str) -> Result<String, DescriptionError> {
    match object.get(member) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) if text.len() <= MAX_NAME && !has_control(text) => {
            Ok(text.clone())
        }
        Some(other) => Err(wrong(
            member,
            "a string of at most 253 printable bytes",
            other,
        )),
    }
}

fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
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
        // The first mention counts, as with KubeVirt's own sidecars.
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
    Ok(Some(Wishes {
        paths: each("paths", paths, policy::pattern)?,
        config,
        dirs: each("dirs", dirs, policy::directory)?,
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
        Some(Value::Array(list)) => list
            .iter()
            .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong(item)))
            .collect(),
        Some(other) => Err(wrong(other)),
    }
}

fn each<T>(
    member: &str,
    texts: Vec<String>,
    read: fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, DescriptionError> {
    let read = |text: String| {
        read(&text).map_err(|reason| DescriptionError::Wish {
            member: format!("wishes.{member}"),
            reason: shorten(&reason),
        })
    };
    texts.into_iter().map(read).collect()
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
    text.chars().take(160).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn unknown_members_are_ignored_and_missing_ones_empty() {
        let text = r#"{"name":"a","future":{"x":1},"hookPoints":[{"name":"PreStart","priority":-3,"y":0},{"name":"OnDefineDomain"}]}"#;
        let description = Description::parse(text).unwrap();
        assert_eq!(description.name, "a");
        assert_eq!(description.version, "");
        assert_eq!(description.priority(HookPoint::PreStart), Some(-3));
        assert_eq!(description.priority(HookPoint::OnDefineDomain), Some(0));
        assert_eq!(description.priority(HookPoint::Shutdown), None);
        assert_eq!(Description::parse("{}").unwrap(), Description::default());
    }

    #[test]
    fn wishes_are_read_tolerantly() {
        let wishes = |text: &str| Description::parse(text).map(|description| description.wishes);
        assert_eq!(wishes("{}").unwrap(), None);
        assert_eq!(
            wishes(r#"{"wishes":{"future":[]}}"#).unwrap(),
            Some(Wishes::default())
        );
        let text = r#"{"wishes":{"paths":["/domain/title"],"config":["a"],"dirs":["/etc/x"]}}"#;
        let read = wishes(text).unwrap().unwrap();
        assert_eq!(read.paths[0].as_str(), "/domain/title");
        assert_eq!(
            (read.config, read.dirs),
            (vec!["a".into()], vec![PathBuf::from("/etc/x")])
        );
        for (text, part) in [
            (r#"{"wishes":[]}"#, "wishes should be an object"),
            (r#"{"wishes":{"paths":[1]}}"#, "wishes.paths should be"),
            (r#"{"wishes":{"paths":["title"]}}"#, "begin with /domain/"),
            (r#"{"wishes":{"paths":["/domain/["]}}"#, "wishes.paths"),
            (r#"{"wishes":{"dirs":["../x"]}}"#, "wishes.dirs"),
        ] {
            let error = wishes(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let error = |text: &str| Description::parse(text).unwrap_err().to_string();
        assert!(error("[]").contains("no JSON object"));
        assert!(error(r#"{"name":3}"#).contains("name should be"));
        assert!(error("{\"name\":\"a\\nb\"}").contains("printable"));
        assert!(error(r#"{"hookPoints":[{"name":"Never"}]}"#).contains("\"Never\""));
        assert!(
            error(r#"{"hookPoints":[{"name":"PreStart","priority":1e10}]}"#).contains("32-bit")
        );
        assert!(error(r#"{"hookPoints":{}}"#).contains("a list"));
        assert!(error(&" ".repeat(70_000)).contains("70000 bytes"));
    }
}
