//! Paths into a document: a small, closed part of XPath.
//!
//! ```text
//! /domain/devices/disk[target/@dev='vda']/driver/@queues    absolute: begins with the root
//! devices/interface[alias/@name="ua-default"]               relative to the element asked
//! devices/controller[@type='scsi'][@index='0']              predicates all hold
//! os/boot[2]                                                the second <boot>
//! metadata/*/uid    qemu:commandline/qemu:*                 any name; any name of a namespace
//! /domain/sysinfo/baseBoard/**                              baseBoard and everything below it
//! ```
//!
//! Prefixes are canonical (`qemu`), whatever prefix the document uses for that namespace.

mod edit_by_path;
mod insert_by_path;
mod parse_pattern;
mod predicate_evaluation;
mod select_elements;

pub use insert_by_path::InsertError;

use std::fmt;
use std::str::FromStr;

use crate::{EditError, edit_error};

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    source: String,
    pub(crate) absolute: bool,
    pub(crate) steps: Vec<Step>,
    pub(crate) target: Target,
}

/// One level of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// `**`: any number of levels, none included.
    Descend,
    /// An element with its predicates.
    Child {
        name: NameTest,
        predicates: Vec<Predicate>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum NameTest {
    /// `*`
    Any,
    /// `qemu:*`, held as `qemu:`
    Prefix(String),
    Exact(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Predicate {
    /// `[2]`: the second of the siblings that the step's name accepts.
    Position(usize),
    /// `[target/@dev]`, `[target/@dev='vda']`
    Holds {
        names: Vec<String>,
        target: Target,
        value: Option<String>,
    },
}

/// The kind of node that a path selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// The element; its value is its text.
    Element,
    /// An attribute of the element.
    Attribute(NameTest),
}

/// What a path ends in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastStep {
    /// The name of an element.
    Element,
    /// The name of an attribute.
    Attribute,
    /// `*`, `**`, `@*`, or any name of a namespace.
    Wildcard,
}

/// Why a path is invalid, or cannot be used for this purpose.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("path `{path}`, column {column}: {kind}")]
pub struct PathError {
    /// The path as given.
    pub path: String,
    /// Column in characters, from 1.
    pub column: usize,
    /// The error.
    pub kind: PathErrorKind,
}

/// The kinds of errors in paths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathErrorKind {
    /// A syntax error.
    #[error("expected {0}")]
    Expected(&'static str),
    /// An invalid name.
    #[error("`{0}` is not a name")]
    BadName(String),
    /// Too many levels.
    #[error("a path has at most {0} steps")]
    TooManySteps(usize),
    /// A path that does not define the elements to create.
    #[error("nothing can be made from {0}: name every element and give every predicate a value")]
    NotDefinite(&'static str),
    /// An absolute path that begins with another element.
    #[error("the element is <{0}>, not what the path begins with")]
    OtherRoot(String),
    /// An attribute where an element is required.
    #[error("the path selects an attribute, but an element is wanted")]
    NotAnElement,
    /// A value to be set that has a character that XML does not allow.
    #[error(transparent)]
    Value(EditError),
}

impl PathPattern {
    /// Reads a path.
    ///
    /// # Errors
    /// If the path is invalid; with the column.
    pub fn parse(path: &str) -> Result<PathPattern, PathError> {
        parse_pattern::parse(path)
    }

    /// The path as it was given.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// The number of predicates.
    pub fn predicates(&self) -> usize {
        let count = |step: &Step| match step {
            Step::Descend => 0,
            Step::Child { predicates, .. } => predicates.len(),
        };
        self.steps.iter().map(count).sum()
    }

    /// Whether a position is asked of the elements at this level (0 is the root). Behind `**` a step may be of any level.
    pub(crate) fn has_position_at(&self, level: usize) -> bool {
        let mut descends = false;
        self.steps.iter().enumerate().any(|(at, step)| match step {
            Step::Descend => {
                descends = true;
                false
            }
            Step::Child { predicates, .. } => {
                (descends || at == level) && predicates.iter().any(Predicate::is_position)
            }
        })
    }

    /// What the pattern ends in.
    pub(crate) fn last_step(&self) -> LastStep {
        match (&self.target, self.steps.last()) {
            (Target::Attribute(NameTest::Exact(_)), _) => LastStep::Attribute,
            (
                Target::Element,
                Some(Step::Child {
                    name: NameTest::Exact(_),
                    ..
                }),
            ) => LastStep::Element,
            _ => LastStep::Wildcard,
        }
    }

    /// Refuses a value that no XML document can have.
    fn check_value(&self, value: &str) -> Result<(), PathError> {
        let error = |error| self.error(PathErrorKind::Value(error));
        edit_error::check_value(value).map_err(error)
    }

    pub(crate) fn error(&self, kind: PathErrorKind) -> PathError {
        PathError {
            path: self.source.clone(),
            column: 1,
            kind,
        }
    }
}

impl Predicate {
    pub(crate) fn is_position(&self) -> bool {
        matches!(self, Predicate::Position(_))
    }
}

impl NameTest {
    pub(crate) fn accepts(&self, name: &str) -> bool {
        match self {
            NameTest::Any => true,
            NameTest::Prefix(prefix) => name.starts_with(prefix.as_str()),
            NameTest::Exact(exact) => exact == name,
        }
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl FromStr for PathPattern {
    type Err = PathError;

    fn from_str(path: &str) -> Result<Self, Self::Err> {
        PathPattern::parse(path)
    }
}
