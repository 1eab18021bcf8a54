//! Editing by path.

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
                super::predicate_holds(element, names, target, Some(value))
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

/// Why an element is not inserted by path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InsertError {
    /// The path is none, or names no definite element.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The path does not select what was added for it, so that a second call would add it again.
    #[error("`{path}` does not select {element}, which was added for it")]
    #[non_exhaustive]
    NotSelected {
        /// The path.
        path: String,
        /// What was added, as XML.
        element: String,
    },
}

/// The few elements whose children have a fixed order in libvirt's schema (libvirt 11, domaincommon.rng):
/// parent and ordered children.
const ORDERS: [(&str, &[&str]); 6] = [
    ("resource", &["partition", "fibrechannel"]),
    ("model", &["acceleration", "resolution"]),
    ("source", &["vendor", "product", "address"]),
    ("source", &["slices", "dataStore"]),
    ("source", &["reconnect", "clipboard", "mouse", "seclabel"]),
    ("launchSecurity", &["cbitpos", "reducedPhysBits"]),
];

impl Element {
    /// Adds `child` to the element at `parent`, which is created if it is missing: at the position that libvirt's
    /// schema requires, or as the last child. An empty path is this element.
    ///
    /// # Errors
    /// As [`Element::ensure`].
    ///
    /// ```
    /// # use domain_xml::Element;
    /// let mut domain = Element::parse("<domain><resource><fibrechannel appid='a'/></resource></domain>")?;
    /// domain.insert("resource", Element::new("partition").with_text("/machine"))?;
    /// assert_eq!(
    ///     domain.render(),
    ///     "<domain><resource><partition>/machine</partition><fibrechannel appid='a'/></resource></domain>"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert(&mut self, parent: &str, child: Element) -> Result<&mut Element, PathError> {
        let parent = if parent.is_empty() {
            self
        } else {
            self.ensure(parent)?
        };
        let known = |(name, children): &&(&str, &[&str])| {
            parent.is(name) && children.contains(&child.canonical_name())
        };
        let order = ORDERS.iter().find(known).map(|(_, order)| *order);
        Ok(match order {
            Some(order) => parent.insert_ordered(child, order),
            None => parent.append(child),
        })
    }

    /// Adds an element unless the path already selects one. Returns whether it was added. Since the path then selects
    /// the element, a second run of the hook adds nothing.
    ///
    /// # Errors
    /// As [`Element::ensure`] for the path without its last step; and if the path does not select what was added.
    ///
    /// ```
    /// # use domain_xml::Element;
    /// let mut domain = Element::parse("<domain><devices/></domain>")?;
    /// let watchdog = || Element::new("watchdog").with_attr("model", "itco").with_attr("action", "reset");
    /// assert!(domain.insert_if_absent("devices/watchdog[@model='itco']", watchdog)?);
    /// assert!(!domain.insert_if_absent("devices/watchdog[@model='itco']", watchdog)?);
    /// assert_eq!(domain.find_all("devices/watchdog")?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert_if_absent(
        &mut self,
        path: &str,
        make: impl FnOnce() -> Element,
    ) -> Result<bool, InsertError> {
        if self.find(path)?.is_some() {
            return Ok(false);
        }
        let (parent, _) = split_last(path);
        let made = self.insert(parent, make())?.render();
        match self.find(path)? {
            Some(_) => Ok(true),
            None => Err(InsertError::NotSelected {
                path: path.to_owned(),
                element: made,
            }),
        }
    }

    /// Sets the attribute or text at the path unless it has a value. Returns whether it was set.
    ///
    /// # Errors
    /// As [`Element::set`].
    ///
    /// ```
    /// # use domain_xml::Element;
    /// let mut domain = Element::parse("<domain><cpu mode='host-model'/></domain>")?;
    /// assert!(!domain.set_if_absent("cpu/@mode", "host-passthrough")?);
    /// assert!(domain.set_if_absent("cpu/@migratable", "on")?);
    /// assert_eq!(domain.render(), "<domain><cpu mode='host-model' migratable='on'/></domain>");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_if_absent(&mut self, path: &str, value: impl AsRef<str>) -> Result<bool, PathError> {
        let is_absent = self.value(path)?.is_none();
        if is_absent {
            self.set(path, value)?;
        }
        Ok(is_absent)
    }
}

/// A path without its last step, and that step. Slashes in predicates are not separators.
fn split_last(path: &str) -> (&str, &str) {
    let (mut depth, mut quote, mut last) = (0_usize, None, None);
    for (at, c) in path.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => depth = depth.saturating_sub(1),
            (None, '/') if depth == 0 => last = Some(at),
            _ => {}
        }
    }
    last.map_or(("", path), |at| (&path[..at], &path[at + 1..]))
}

#[cfg(test)]
mod tests;
