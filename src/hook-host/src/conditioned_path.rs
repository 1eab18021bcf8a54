//! A path pattern of the domain, with a condition on the values that may be written there.
//!
//! Wishes, `hook.yaml` and the operator's policy have the same two forms, in JSON as in YAML: the pattern alone, or a
//! mapping with `path` and the condition. A reader that does not know conditions refuses the mapping, since it takes
//! nothing but texts, and so never grants the path without the condition.

mod value_condition;

use std::fmt;

use domain_xml::host::{LastStep, last_step};
use domain_xml::{PathError, PathPattern};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::absolute_directory::{DirectoryError, absolute_directory};
use crate::printable::{UnprintableText, check_printable};
pub use value_condition::ValueCondition;
use value_condition::ValueConditionError;

/// Maximum length of a path pattern in bytes.
const MAX_PATTERN_BYTES: usize = 1024;
/// Maximum number of predicates in a path pattern.
const MAX_PREDICATES: usize = 8;

/// A path pattern, and what the values must be that are written there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionedPath {
    /// The pattern; in wishes and policies it begins with `/domain/`.
    pub pattern: PathPattern,
    /// What a value that is written must be; `None` permits any value, and removals.
    pub condition: Option<ValueCondition>,
}

/// Why a path, or its condition, is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct ConditionedPathError(#[from] Reason);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Reason {
    #[error("a path of {0} bytes, more than {MAX_PATTERN_BYTES}")]
    Long(usize),
    #[error(transparent)]
    Unprintable(#[from] UnprintableText),
    #[error(transparent)]
    Syntax(#[from] PathError),
    #[error("path `{path}` has {count} predicates, more than {MAX_PREDICATES}")]
    Predicates { path: String, count: usize },
    #[error("path `{0}` does not begin with /domain/")]
    Elsewhere(String),
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("path `{path}`: {reason}")]
    Condition {
        path: String,
        reason: ValueConditionError,
    },
    #[error(
        "path `{0}` ends in a wildcard, and a condition is about one value: end the path in the name of an attribute or \
         element"
    )]
    Wildcard(String),
}

impl From<PathPattern> for ConditionedPath {
    fn from(pattern: PathPattern) -> Self {
        Self {
            pattern,
            condition: None,
        }
    }
}

impl ConditionedPath {
    /// The text of the pattern, without the condition.
    #[must_use]
    pub fn path(&self) -> &str {
        self.pattern.as_str()
    }

    /// Parses a path without a condition.
    pub fn parse(text: &str) -> Result<Self, ConditionedPathError> {
        Ok(Self::from(domain_pattern(text)?))
    }

    /// The path of the attributes of the element in which the pattern ends: a wish for an element includes its own
    /// attributes. `None` if the pattern ends in something else, or has a condition, which is about the element's text.
    #[must_use]
    pub fn own_attributes(&self) -> Option<Self> {
        if self.condition.is_some() || last_step(&self.pattern) != LastStep::Element {
            return None;
        }
        Self::parse(&format!("{}/@*", self.path())).ok()
    }

    fn new(fields: Fields) -> Result<Self, Reason> {
        let Fields {
            path,
            below,
            one_of,
            matches,
            at_most,
        } = fields;
        let pattern = domain_pattern(&path)?;
        let below = below.map(|dir| absolute_directory(&dir)).transpose()?;
        let condition =
            ValueCondition::new(below, one_of, matches, at_most.map(|maximum| maximum.0)).map_err(
                |reason| Reason::Condition {
                    path: path.clone(),
                    reason,
                },
            )?;
        // The values of several nodes would be as many things under one condition.
        if last_step(&pattern) == LastStep::Wildcard {
            return Err(Reason::Wildcard(path));
        }
        Ok(Self {
            pattern,
            condition: Some(condition),
        })
    }
}

/// The path, and the condition in parentheses.
impl fmt::Display for ConditionedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())?;
        match &self.condition {
            Some(condition) => write!(f, " ({condition})"),
            None => Ok(()),
        }
    }
}

/// The mapping of a path with a condition.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Fields {
    path: String,
    #[serde(default, deserialize_with = "not_null")]
    below: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    one_of: Option<Vec<String>>,
    #[serde(default, deserialize_with = "not_null")]
    matches: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    at_most: Option<Maximum>,
}

/// The number of `at-most`.
struct Maximum(u64);

/// A key without a value, or with `null`, would be no condition, so it is not one that is left out.
fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

struct MaximumVisitor;

impl Visitor<'_> for MaximumVisitor {
    type Value = Maximum;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number for at-most, without quotes, sign and unit")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Maximum, E> {
        Ok(Maximum(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Maximum, E> {
        let negative = || E::invalid_value(Unexpected::Signed(number), &self);
        u64::try_from(number).map(Maximum).map_err(|_| negative())
    }
}

impl<'de> Deserialize<'de> for Maximum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MaximumVisitor)
    }
}

struct ConditionedPathVisitor;

impl<'de> Visitor<'de> for ConditionedPathVisitor {
    type Value = ConditionedPath;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path, or a mapping with `path` and a condition")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        ConditionedPath::parse(text).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Self::Value, A::Error> {
        let fields = Fields::deserialize(MapAccessDeserializer::new(entries))?;
        ConditionedPath::new(fields).map_err(A::Error::custom)
    }
}

impl<'de> Deserialize<'de> for ConditionedPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ConditionedPathVisitor)
    }
}

impl Serialize for ConditionedPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(condition) = &self.condition else {
            return serializer.serialize_str(self.path());
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("path", self.path())?;
        if let Some(dir) = condition.dir() {
            map.serialize_entry("below", dir)?;
        }
        if let Some(values) = condition.values() {
            map.serialize_entry("one-of", values)?;
        }
        if let Some(expression) = condition.expression() {
            map.serialize_entry("matches", expression)?;
        }
        if let Some(maximum) = condition.maximum() {
            map.serialize_entry("at-most", &maximum)?;
        }
        map.end()
    }
}

/// Parses a path pattern, which must start with `/domain/`. Length and number of predicates are limited, because a
/// pattern is matched against every element that a hook changes.
fn domain_pattern(text: &str) -> Result<PathPattern, Reason> {
    if text.len() > MAX_PATTERN_BYTES {
        return Err(Reason::Long(text.len()));
    }
    check_printable("path", text)?;
    let pattern = PathPattern::parse(text)?;
    if pattern.predicates() > MAX_PREDICATES {
        return Err(Reason::Predicates {
            path: text.to_owned(),
            count: pattern.predicates(),
        });
    }
    if text.starts_with("/domain/") {
        Ok(pattern)
    } else {
        Err(Reason::Elsewhere(text.to_owned()))
    }
}

#[cfg(test)]
mod tests;
