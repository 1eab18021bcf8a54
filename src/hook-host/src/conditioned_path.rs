//! A path pattern of the domain, with a condition on the values that may be written there.
//!
//! Wishes, `hook.yaml` and the operator's policy have the same two forms, in JSON as in YAML: the pattern alone, or a
//! mapping with `path` and the condition. A reader that does not know conditions refuses the mapping, since it takes
//! nothing but texts, and so never grants the path without the condition.

use std::fmt;
use std::path::{Path, PathBuf};

use domain_xml::host::{LastStep, last_step};
use domain_xml::{PathError, PathPattern};
use regex::bytes::{Regex, RegexBuilder};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::absolute_directory::{DirectoryError, absolute_directory};
use crate::printable::{UnprintableText, check_printable, is_printable, printable};

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

// Conditions on a value that is written into the domain.
//
// A condition decides by the text of the value alone. It opens no file, so that `below` says nothing about links in the
// directory.

/// Maximum length in bytes of a value that meets a condition: that of a path in Linux.
const MAX_VALUE_BYTES: usize = 4096;
/// Maximum number of values of `one-of`.
const MAX_VALUES: usize = 64;
/// Maximum length of a regular expression in bytes.
const MAX_EXPRESSION_BYTES: usize = 256;
/// Maximum size of a compiled regular expression in bytes. Matching takes time by this size and the value's length.
const MAX_COMPILED_BYTES: usize = 64 << 10;
/// Maximum depth of groups in a regular expression.
const MAX_NESTING: u32 = 16;
/// Maximum length of a value in messages, in bytes.
const MAX_SHOWN: usize = 160;

/// Why something is no condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum ValueConditionError {
    #[error(
        "there is no condition: add below, one-of, matches or at-most, or write the path alone"
    )]
    Missing,
    #[error(transparent)]
    Unprintable(#[from] UnprintableText),
    #[error("one-of lists nothing, which no value is: leave out the path")]
    NoValues,
    #[error("one-of: {0} values, more than {MAX_VALUES}")]
    TooManyValues(usize),
    #[error("one-of: a value of {0} bytes, more than {MAX_VALUE_BYTES}")]
    LongValue(usize),
    #[error("matches: an expression of {0} bytes, more than {MAX_EXPRESSION_BYTES}")]
    LongExpression(usize),
    #[error("matches: {0:?} is too large an expression: write fewer or smaller repetitions")]
    LargeExpression(String),
    #[error("matches: {expression:?} is not a regular expression: {reason}")]
    NoExpression { expression: String, reason: String },
}

/// What a value must be; at least one of these, all of which must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueCondition {
    below: Option<PathBuf>,
    one_of: Option<Vec<String>>,
    matches: Option<WholeMatch>,
    at_most: Option<u64>,
}

/// A regular expression that describes whole values.
#[derive(Debug, Clone)]
struct WholeMatch {
    expression: String,
    anchored: Regex,
}

impl PartialEq for WholeMatch {
    fn eq(&self, other: &Self) -> bool {
        self.expression == other.expression
    }
}

impl Eq for WholeMatch {}

impl ValueCondition {
    fn new(
        below: Option<PathBuf>,
        one_of: Option<Vec<String>>,
        matches: Option<String>,
        at_most: Option<u64>,
    ) -> Result<Self, ValueConditionError> {
        if below.is_none() && one_of.is_none() && matches.is_none() && at_most.is_none() {
            return Err(ValueConditionError::Missing);
        }
        if let Some(values) = &one_of {
            check_values(values)?;
        }
        let matches = matches.map(WholeMatch::compile).transpose()?;
        Ok(Self {
            below,
            one_of,
            matches,
            at_most,
        })
    }

    /// Why a value does not meet the condition, if it does not.
    pub(crate) fn unmet(&self, value: &str) -> Option<String> {
        if value.len() > MAX_VALUE_BYTES {
            let length = value.len();
            return Some(format!(
                "a value of {length} bytes, and one of at most {MAX_VALUE_BYTES} meets a condition"
            ));
        }
        let shown = || printable(value, MAX_SHOWN);
        let below = self.below.as_deref().and_then(|dir| not_below(dir, value));
        let one_of = || {
            let values = self.one_of.as_ref()?;
            let is_listed = values.iter().any(|listed| listed == value);
            (!is_listed).then(|| format!("{:?} is not one of {}", shown(), quoted_list(values)))
        };
        let matches = || {
            let matches = self.matches.as_ref()?;
            let is_match = matches.anchored.is_match(value.as_bytes());
            let expression = &matches.expression;
            (!is_match).then(|| {
                format!(
                    "{:?} does not as a whole match the expression {expression:?}",
                    shown()
                )
            })
        };
        let at_most = || {
            let maximum = self.at_most?;
            match number(value) {
                Some(number) if number <= maximum => None,
                Some(_) => Some(format!("{} is more than {maximum}", shown())),
                None => Some(format!(
                    "{:?} is not a number as at-most reads it: decimal digits without sign, unit, space and leading zeros",
                    shown()
                )),
            }
        };
        below.or_else(one_of).or_else(matches).or_else(at_most)
    }

    /// Whether it is certain that no value meets both conditions.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        let lists_only_others = |one: &Self, other: &Self| {
            let values = one.one_of.as_ref();
            values.is_some_and(|values| {
                let mut values = values.iter();
                values.all(|value| one.unmet(value).is_some() || other.unmet(value).is_some())
            })
        };
        let are_apart = match (&self.below, &other.below) {
            (Some(one), Some(other)) => !one.starts_with(other) && !other.starts_with(one),
            _ => false,
        };
        are_apart || lists_only_others(self, other) || lists_only_others(other, self)
    }

    fn dir(&self) -> Option<&Path> {
        self.below.as_deref()
    }

    fn values(&self) -> Option<&[String]> {
        self.one_of.as_deref()
    }

    fn expression(&self) -> Option<&str> {
        let matches = self.matches.as_ref()?;
        Some(&matches.expression)
    }

    fn maximum(&self) -> Option<u64> {
        self.at_most
    }
}

/// The condition as in wishes and policies: `below: /var/log`, several with commas.
impl fmt::Display for ValueCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let below = self.below.as_ref();
        let matches = self.matches.as_ref();
        let parts = [
            below.map(|dir| format!("below: {}", dir.display())),
            self.one_of
                .as_ref()
                .map(|values| format!("one-of: {}", quoted_list(values))),
            matches.map(|matches| format!("matches: {:?}", matches.expression)),
            self.at_most.map(|maximum| format!("at-most: {maximum}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}

impl WholeMatch {
    fn compile(expression: String) -> Result<Self, ValueConditionError> {
        if expression.len() > MAX_EXPRESSION_BYTES {
            return Err(ValueConditionError::LongExpression(expression.len()));
        }
        check_printable("expression", &expression)?;
        let compile = |text: &str| {
            // Without Unicode, `\d` and `(?i)` mean what libvirt and QEMU take for digits and letters.
            let regex = RegexBuilder::new(text)
                .unicode(false)
                .size_limit(MAX_COMPILED_BYTES)
                .nest_limit(MAX_NESTING)
                .build();
            regex.map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => {
                    ValueConditionError::LargeExpression(expression.clone())
                }
                error => ValueConditionError::NoExpression {
                    expression: expression.clone(),
                    reason: printable(&last_line(&error.to_string()), MAX_SHOWN),
                },
            })
        };
        // Alone too, so that an expression such as `a)|(b` cannot end the group of the anchors.
        compile(&expression)?;
        let anchored = compile(&format!(r"\A(?:{expression})\z"))?;
        Ok(Self {
            expression,
            anchored,
        })
    }
}

/// The reason in the last line of an error of `regex`, which shows the expression with a marker above it.
fn last_line(error: &str) -> String {
    let reason = error.lines().last().unwrap_or_default();
    reason.trim_start_matches("error: ").to_owned()
}

fn check_values(values: &[String]) -> Result<(), ValueConditionError> {
    if values.is_empty() {
        return Err(ValueConditionError::NoValues);
    }
    if values.len() > MAX_VALUES {
        return Err(ValueConditionError::TooManyValues(values.len()));
    }
    for value in values {
        check_printable("value", value)?;
        if value.len() > MAX_VALUE_BYTES {
            return Err(ValueConditionError::LongValue(value.len()));
        }
    }
    Ok(())
}

/// Why a value is not the path of something below a directory. Only a path that is written without detours counts: `..`
/// leaves the directory if there are links, and `//`, `.` and a `/` at the end hide nothing that a hook has to write.
fn not_below(dir: &Path, value: &str) -> Option<String> {
    let refused = |reason: &str| {
        let value = printable(value, MAX_SHOWN);
        let dir = dir.display();
        Some(format!("{value:?} is not below {dir}{reason}"))
    };
    if !value.chars().all(is_printable) {
        return refused(": it has unprintable characters");
    }
    let Some(names) = value.strip_prefix('/') else {
        return refused(": it is not an absolute path");
    };
    let mut names = names.split('/');
    if names.any(|name| matches!(name, "" | "." | "..")) {
        return refused(": it is not written without `..`, `.`, `//` and a `/` at the end");
    }
    let path = Path::new(value);
    match path != dir && path.starts_with(dir) {
        true => None,
        false => refused(""),
    }
}

/// The number that a value is for every reader: those that know signs, prefixes of octal or hexadecimal numbers, or units
/// read the same number.
fn number(value: &str) -> Option<u64> {
    let is_decimal = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_canonical = is_decimal && (value == "0" || !value.starts_with('0'));
    value.parse().ok().filter(|_| is_canonical)
}

/// The values in quotes, with commas; of many the first.
fn quoted_list(values: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = values.iter().take(SHOWN);
    let shown: Vec<String> = shown
        .map(|value| format!("{:?}", printable(value, MAX_SHOWN)))
        .collect();
    let more = values.len().saturating_sub(SHOWN);
    let rest = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shown.join(", ") + &rest
}

#[cfg(test)]
mod tests;
