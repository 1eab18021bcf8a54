//! Whether a predicate of a path holds for an element.

use super::{NameTest, Predicate, Target};
use crate::Element;
use crate::start_tag::Attribute;

impl Predicate {
    pub(crate) fn holds(&self, element: &Element, position: usize) -> bool {
        match self {
            Predicate::Position(wanted) => *wanted == position,
            Predicate::Holds {
                names,
                target,
                value,
            } => holds(element, names, target, value.as_deref()),
        }
    }
}

/// Whether a descendant along `names` has the value.
pub(super) fn holds(
    element: &Element,
    names: &[String],
    target: &Target,
    value: Option<&str>,
) -> bool {
    match names.split_first() {
        Some((name, rest)) => element
            .children_named(name)
            .any(|child| holds(child, rest, target, value)),
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

    pub(super) fn exists_on(&self, element: &Element) -> bool {
        *self == Target::Element || self.attribute(element).is_some()
    }

    pub(super) fn value_of(&self, element: &Element) -> Option<String> {
        match self {
            Target::Element => Some(element.text()),
            Target::Attribute(_) => self
                .attribute(element)
                .map(|attribute| attribute.value().into_owned()),
        }
    }
}
