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

use std::fmt;
use std::str::FromStr;

use crate::start_tag::Attribute;
use crate::{EditError, Element, edit_error, name};
pub use edit_by_path::InsertError;

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
        parse_pattern(path)
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

/// Each step is one bit of the selection's state.
const MAX_STEPS: usize = 60;

fn parse_pattern(path: &str) -> Result<PathPattern, PathError> {
    let mut cursor = Cursor { path, at: 0 };
    let absolute = cursor.take("/");
    let mut steps = Vec::new();
    let mut target = Target::Element;
    loop {
        if cursor.take("@") {
            target = Target::Attribute(cursor.name_test("the name of an attribute")?);
            break;
        }
        steps.push(cursor.step()?);
        if steps.len() > MAX_STEPS {
            return Err(cursor.error(PathErrorKind::TooManySteps(MAX_STEPS)));
        }
        if !cursor.take("/") {
            break;
        }
    }
    if !cursor.rest().is_empty() {
        return Err(cursor.expected("`/`, `[` or the end of the path"));
    }
    if absolute && steps.is_empty() {
        return Err(cursor.expected("the name of the root element before an attribute"));
    }
    Ok(PathPattern {
        source: path.to_owned(),
        absolute,
        steps,
        target,
    })
}

struct Cursor<'a> {
    path: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.path[self.at..]
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn error(&self, kind: PathErrorKind) -> PathError {
        let column = self.path[..self.at].chars().count() + 1;
        PathError {
            path: self.path.to_owned(),
            column,
            kind,
        }
    }

    fn expected(&self, what: &'static str) -> PathError {
        self.error(PathErrorKind::Expected(what))
    }

    fn step(&mut self) -> Result<Step, PathError> {
        if self.take("**") {
            return Ok(Step::Descend);
        }
        let name = self.name_test("the name of an element, `*`, `**` or `@`")?;
        let mut predicates = Vec::new();
        while self.take("[") {
            predicates.push(self.predicate()?);
        }
        Ok(Step::Child { name, predicates })
    }

    fn word(&mut self, what: &'static str) -> Result<&'a str, PathError> {
        let rest = self.rest();
        let ends =
            |c: char| matches!(c, '/' | '[' | ']' | '@' | '=' | '\'' | '"') || c.is_whitespace();
        let word = &rest[..rest.find(ends).unwrap_or(rest.len())];
        if word.is_empty() {
            return Err(self.expected(what));
        }
        self.at += word.len();
        Ok(word)
    }

    fn name_test(&mut self, what: &'static str) -> Result<NameTest, PathError> {
        let start = self.at;
        let word = self.word(what)?;
        if word == "*" {
            return Ok(NameTest::Any);
        }
        match word.strip_suffix('*') {
            Some(start) if start.strip_suffix(':').is_some_and(name::is_valid_part) => {
                Ok(NameTest::Prefix(start.to_owned()))
            }
            None if name::is_valid(word) => Ok(NameTest::Exact(word.to_owned())),
            _ => {
                self.at = start;
                Err(self.error(PathErrorKind::BadName(word.to_owned())))
            }
        }
    }

    fn exact_name(&mut self, what: &'static str) -> Result<String, PathError> {
        let start = self.at;
        match self.name_test(what)? {
            NameTest::Exact(name) => Ok(name),
            NameTest::Any | NameTest::Prefix(_) => {
                self.at = start;
                Err(self.expected("a name without `*` in a predicate"))
            }
        }
    }

    /// The inside of `[` and `]`.
    fn predicate(&mut self) -> Result<Predicate, PathError> {
        let predicate = match self.position()? {
            Some(position) => Predicate::Position(position),
            None => self.condition()?,
        };
        if self.take("]") {
            Ok(predicate)
        } else {
            Err(self.expected("`]`"))
        }
    }

    fn position(&mut self) -> Result<Option<usize>, PathError> {
        let rest = self.rest();
        let digits = &rest[..rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len())];
        if digits.is_empty() {
            return Ok(None);
        }
        let position = digits.parse().ok().filter(|n| *n > 0);
        let position = position.ok_or_else(|| self.expected("a position from 1"))?;
        self.at += digits.len();
        Ok(Some(position))
    }

    fn condition(&mut self) -> Result<Predicate, PathError> {
        let mut names = Vec::new();
        let mut target = Target::Element;
        if !self.take("text()") {
            loop {
                if self.take("@") {
                    target = Target::Attribute(NameTest::Exact(
                        self.exact_name("the name of an attribute")?,
                    ));
                    break;
                }
                names.push(self.exact_name("a position, a name or `@`")?);
                if !self.take("/") {
                    break;
                }
            }
        }
        let value = if self.take("=") {
            Some(self.quoted()?)
        } else {
            None
        };
        Ok(Predicate::Holds {
            names,
            target,
            value,
        })
    }

    fn quoted(&mut self) -> Result<String, PathError> {
        let rest = self.rest();
        let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let quote = quote.ok_or_else(|| self.expected("a value in quotes"))?;
        let end = rest[1..]
            .find(quote)
            .ok_or_else(|| self.expected("a value whose quotes are closed"))?;
        self.at += end + 2;
        Ok(rest[1..=end].to_owned())
    }
}

/// The position of an element: node indices, level by level from the start of the search.
type NodeIndices = Vec<usize>;

impl Element {
    /// The first element that the path selects. A path that ends in an attribute selects the
    /// elements that carry it. An absolute path begins with this element itself; one that begins with another name is
    /// an error, since it selects nothing in any document.
    ///
    /// # Errors
    /// If the path is invalid, or absolute and does not begin with this element.
    pub fn find(&self, path: &str) -> Result<Option<&Element>, PathError> {
        let pattern = PathPattern::for_element(path, self)?;
        Ok(pattern
            .locate(self, 1)
            .first()
            .and_then(|indices| self.at(indices)))
    }

    /// The first element that the path selects, to edit.
    ///
    /// # Errors
    /// As [`Element::find`].
    pub fn find_mut(&mut self, path: &str) -> Result<Option<&mut Element>, PathError> {
        let pattern = PathPattern::for_element(path, self)?;
        let indices = pattern.locate(self, 1).into_iter().next();
        Ok(indices.and_then(|indices| self.at_mut(&indices)))
    }

    /// All elements that the path selects, in document order.
    ///
    /// # Errors
    /// As [`Element::find`].
    pub fn find_all(&self, path: &str) -> Result<Vec<&Element>, PathError> {
        Ok(PathPattern::for_element(path, self)?.find_all(self))
    }

    /// The first value that the path selects: an attribute's, or an element's text.
    ///
    /// # Errors
    /// As [`Element::find`].
    pub fn value(&self, path: &str) -> Result<Option<String>, PathError> {
        let pattern = PathPattern::parse(path)?;
        Ok(self
            .find(path)?
            .and_then(|element| pattern.target.value_of(element)))
    }

    /// Every value that the path selects, in document order; one per element.
    ///
    /// # Errors
    /// As [`Element::find`].
    pub fn values(&self, path: &str) -> Result<Vec<String>, PathError> {
        let pattern = PathPattern::for_element(path, self)?;
        Ok(pattern
            .find_all(self)
            .into_iter()
            .filter_map(|element| pattern.target.value_of(element))
            .collect())
    }

    fn at(&self, indices: &[usize]) -> Option<&Element> {
        indices.iter().try_fold(self, |element, index| {
            element.nodes().get(*index)?.element()
        })
    }

    fn at_mut(&mut self, indices: &[usize]) -> Option<&mut Element> {
        indices.iter().try_fold(self, |element, index| {
            element.nodes_mut().get_mut(*index)?.element_mut()
        })
    }
}

impl PathPattern {
    /// Reads a path that is to select from this element.
    fn for_element(path: &str, element: &Element) -> Result<PathPattern, PathError> {
        let pattern = PathPattern::parse(path)?;
        pattern.check_root(element)?;
        Ok(pattern)
    }

    /// Refuses an absolute path that begins with another element.
    fn check_root(&self, element: &Element) -> Result<(), PathError> {
        match self.steps.first() {
            Some(Step::Child {
                name: NameTest::Exact(name),
                ..
            }) if self.absolute && !element.is(name) => {
                let root = element.canonical_name().to_owned();
                Err(self.error(PathErrorKind::OtherRoot(root)))
            }
            _ => Ok(()),
        }
    }

    /// All elements that the path selects from `element`, in document order.
    pub fn find_all<'a>(&self, element: &'a Element) -> Vec<&'a Element> {
        self.locate(element, usize::MAX)
            .iter()
            .filter_map(|indices| element.at(indices))
            .collect()
    }

    /// The positions of the first `limit` selected elements.
    fn locate(&self, origin: &Element, limit: usize) -> Vec<NodeIndices> {
        let mut found = Vec::new();
        let mut state = self.close(1);
        if self.absolute {
            state = self.advance(state, origin, &mut self.counters());
        }
        if self.accepts(state, origin) {
            found.push(Vec::new());
        }
        let mut walk = vec![Level::new(origin, state, self.counters())];
        while let Some(level) = walk.last_mut() {
            if found.len() >= limit || level.state == 0 {
                walk.pop();
                continue;
            }
            let Some((index, child)) = level.next_child() else {
                walk.pop();
                continue;
            };
            let state = self.advance(level.state, child, &mut level.counters);
            level.index = index;
            if self.accepts(state, child) {
                found.push(walk.iter().map(|level| level.index).collect());
            }
            walk.push(Level::new(child, state, self.counters()));
        }
        found
    }

    fn accepts(&self, state: u64, element: &Element) -> bool {
        state & (1 << self.steps.len()) != 0 && self.target.exists_on(element)
    }

    /// The number of siblings with each step's name so far; empty if no step has a position.
    fn counters(&self) -> Vec<usize> {
        let asks = self.steps.iter().any(|step| match step {
            Step::Descend => false,
            Step::Child { predicates, .. } => predicates.iter().any(Predicate::is_position),
        });
        vec![0; if asks { self.steps.len() } else { 0 }]
    }

    /// Adds the states after `**`, which also matches no level.
    pub(crate) fn close(&self, state: u64) -> u64 {
        let descends = self
            .steps
            .iter()
            .enumerate()
            .filter(|(_, step)| **step == Step::Descend);
        descends.fold(state, |state, (at, _)| {
            state | ((state >> at) & 1) << (at + 1)
        })
    }

    /// The state inside `child`, from the state around it.
    fn advance(&self, state: u64, child: &Element, counters: &mut [usize]) -> u64 {
        let mut next = 0;
        let steps = self.steps.iter().enumerate();
        for (at, step) in steps.filter(|(at, _)| state >> at & 1 == 1) {
            match step {
                Step::Descend => next |= 1 << at,
                Step::Child { name, predicates } if name.accepts(child.canonical_name()) => {
                    let position = counters.get_mut(at).map_or(0, |count| {
                        *count += 1;
                        *count
                    });
                    let holds = predicates
                        .iter()
                        .all(|predicate| predicate.holds(child, position));
                    next |= u64::from(holds) << (at + 1);
                }
                Step::Child { .. } => {}
            }
        }
        self.close(next)
    }
}

/// An element whose children are being walked.
struct Level<'a> {
    element: &'a Element,
    state: u64,
    next: usize,
    /// Node index of the current child.
    index: usize,
    counters: Vec<usize>,
}

impl<'a> Level<'a> {
    fn new(element: &'a Element, state: u64, counters: Vec<usize>) -> Self {
        Level {
            element,
            state,
            next: 0,
            index: 0,
            counters,
        }
    }

    fn next_child(&mut self) -> Option<(usize, &'a Element)> {
        let rest = self.element.nodes().get(self.next..)?;
        let (offset, child) = rest
            .iter()
            .enumerate()
            .find_map(|(n, node)| Some((n, node.element()?)))?;
        let index = self.next + offset;
        self.next = index + 1;
        Some((index, child))
    }
}

impl Predicate {
    pub(crate) fn holds(&self, element: &Element, position: usize) -> bool {
        match self {
            Predicate::Position(wanted) => *wanted == position,
            Predicate::Holds {
                names,
                target,
                value,
            } => predicate_holds(element, names, target, value.as_deref()),
        }
    }
}

/// Whether a descendant along `names` has the value.
fn predicate_holds(
    element: &Element,
    names: &[String],
    target: &Target,
    value: Option<&str>,
) -> bool {
    match names.split_first() {
        Some((name, rest)) => element
            .children_named(name)
            .any(|child| predicate_holds(child, rest, target, value)),
        None => match value {
            None => target.exists_on(element),
            Some(value) => target.value_of(element).is_some_and(|found| found == value),
        },
    }
}

impl Target {
    fn attribute<'a>(&self, element: &'a Element) -> Option<Attribute<'a>> {
        match self {
            Target::Element => None,
            Target::Attribute(NameTest::Exact(name)) => element.attribute(name),
            Target::Attribute(test) => element
                .attributes()
                .find(|attribute| test.accepts(attribute.name)),
        }
    }

    fn exists_on(&self, element: &Element) -> bool {
        *self == Target::Element || self.attribute(element).is_some()
    }

    fn value_of(&self, element: &Element) -> Option<String> {
        match self {
            Target::Element => Some(element.text()),
            Target::Attribute(_) => self
                .attribute(element)
                .map(|attribute| attribute.value().into_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
