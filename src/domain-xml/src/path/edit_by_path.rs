//! Editing by path.

#[cfg(test)]
mod tests;

use super::{NameTest, PathError, PathErrorKind, PathPattern, Predicate, Step, Target};
use crate::Element;

impl Element {
    /// The element that the path selects. Missing elements are created so that the path selects them:
    /// `sysinfo[@type='smbios']/baseBoard` adds a `<sysinfo type='smbios'>`.
    ///
    /// # Errors
    /// If the path is invalid, ends in an attribute, does not define the elements to create (`*`, `**`, a position, a
    /// predicate without a value), or has a value with a character that XML does not allow.
    pub fn ensure(&mut self, path: &str) -> Result<&mut Element, PathError> {
        let pattern = PathPattern::parse(path)?;
        match pattern.target {
            Target::Element => ensure(self, &pattern),
            Target::Attribute(_) => Err(pattern.error(PathErrorKind::NotAnElement)),
        }
    }

    /// Sets the attribute or the element's text that the path selects. Missing elements are created as by
    /// [`Element::ensure`].
    ///
    /// # Errors
    /// As [`Element::ensure`], but the path may end in an attribute; and if the value has a character that XML does not
    /// allow.
    pub fn set(&mut self, path: &str, value: impl AsRef<str>) -> Result<&mut Element, PathError> {
        let pattern = PathPattern::parse(path)?;
        let value = value.as_ref();
        pattern.check_value(value)?;
        match &pattern.target {
            Target::Element => Ok(ensure(self, &pattern)?.set_text(value)),
            Target::Attribute(NameTest::Exact(name)) => {
                let element = ensure(self, &pattern)?;
                element.put_attr(name, value);
                Ok(element)
            }
            Target::Attribute(_) => Err(pattern.error(PathErrorKind::NotDefinite("`*`"))),
        }
    }

    /// Removes everything that the path selects, with its lines, and returns the number of removals. This element
    /// itself stays.
    ///
    /// # Errors
    /// If the path is invalid, or absolute and does not begin with this element.
    pub fn remove(&mut self, path: &str) -> Result<usize, PathError> {
        let pattern = PathPattern::for_element(path, self)?;
        let mut removed = 0;
        // Backwards, so that removals do not shift the positions of the others.
        for indices in pattern.locate(self, usize::MAX).iter().rev() {
            removed += match &pattern.target {
                Target::Element => remove_element(self, indices),
                Target::Attribute(test) => self
                    .at_mut(indices)
                    .map_or(0, |owner| remove_attributes(owner, test)),
            };
        }
        Ok(removed)
    }
}

fn remove_element(origin: &mut Element, indices: &[usize]) -> usize {
    let Some((last, above)) = indices.split_last() else {
        return 0;
    };
    origin
        .at_mut(above)
        .map_or(0, |parent| usize::from(parent.remove_node(*last)))
}

fn remove_attributes(owner: &mut Element, test: &NameTest) -> usize {
    let mut accepted = Vec::new();
    for attribute in owner.attributes() {
        if test.accepts(attribute.name) {
            accepted.push(attribute.name.to_owned());
        }
    }
    for name in &accepted {
        owner.remove_attr(name);
    }
    accepted.len()
}

fn ensure<'a>(
    origin: &'a mut Element,
    pattern: &PathPattern,
) -> Result<&'a mut Element, PathError> {
    let steps = definite_steps(pattern)?;
    pattern.check_root(origin)?;
    let below = steps.split_at(usize::from(pattern.absolute)).1;
    let mut element = origin;
    for (name, conditions) in below {
        element = ensure_step(element, name, conditions);
    }
    Ok(element)
}

type Condition<'a> = (&'a [String], &'a Target, &'a str);

/// The steps of a path that define the elements to create.
fn definite_steps(pattern: &PathPattern) -> Result<Vec<(&str, Vec<Condition<'_>>)>, PathError> {
    let refuse = |what| pattern.error(PathErrorKind::NotDefinite(what));
    let condition = |predicate| match predicate {
        &Predicate::Holds {
            ref names,
            ref target,
            value: Some(ref value),
        } => {
            pattern.check_value(value)?;
            Ok((names.as_slice(), target, value.as_str()))
        }
        Predicate::Holds { .. } => Err(refuse("a predicate without a value")),
        Predicate::Position(_) => Err(refuse("a position")),
    };
    let step = |step| match step {
        &Step::Child {
            name: NameTest::Exact(ref name),
            ref predicates,
        } => Ok((
            name.as_str(),
            predicates.iter().map(condition).collect::<Result<_, _>>()?,
        )),
        Step::Child { .. } => Err(refuse("`*`")),
        Step::Descend => Err(refuse("`**`")),
    };
    pattern.steps.iter().map(step).collect()
}

fn ensure_step<'a>(
    parent: &'a mut Element,
    name: &str,
    conditions: &[Condition<'_>],
) -> &'a mut Element {
    let fits = |element: &Element| {
        element.is(name)
            && conditions.iter().all(|(names, target, value)| {
                super::predicate_evaluation::holds(element, names, target, Some(value))
            })
    };
    if let Some(at) = parent.position(fits) {
        return parent.element_at(at);
    }
    let mut made = Element::named(name);
    for (names, target, value) in conditions {
        let mut place = &mut made;
        for name in *names {
            place = place.ensure_child(name);
        }
        match target {
            Target::Attribute(NameTest::Exact(attribute)) => place.put_attr(attribute, value),
            Target::Attribute(_) | Target::Element => {
                place.set_text(value);
            }
        }
    }
    parent.append(made)
}
