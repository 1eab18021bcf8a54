//! Editing by path.

use super::{NameTest, PathError, PathErrorKind, PathPattern, Predicate, Step, Target};
use crate::Element;

impl Element {
    /// The element that the path selects. Missing elements are created so that the path selects them:
    /// `sysinfo[@type='smbios']/baseBoard` adds a `<sysinfo type='smbios'>`.
    pub fn ensure(&mut self, path: &str) -> Result<&mut Element, PathError> {
        let pattern = PathPattern::parse(path)?;
        match pattern.target {
            Target::Element => ensure(self, &pattern),
            Target::Attribute(_) => Err(pattern.error(PathErrorKind::NotAnElement)),
        }
    }

    /// Sets the attribute or the element's text that the path selects. Missing elements are created as by
    /// [`Element::ensure`].
    pub fn set(&mut self, path: &str, value: impl AsRef<str>) -> Result<&mut Element, PathError> {
        let pattern = PathPattern::parse(path)?;
        match &pattern.target {
            Target::Element => Ok(ensure(self, &pattern)?.set_text(value)),
            Target::Attribute(NameTest::Exact(name)) => {
                Ok(ensure(self, &pattern)?.set_attr(name, value))
            }
            Target::Attribute(_) => Err(pattern.error(PathErrorKind::NotDefinite("`*`"))),
        }
    }

    /// Removes everything that the path selects, with its lines, and returns the number of removals. This element itself
    /// stays.
    pub fn remove(&mut self, path: &str) -> Result<usize, PathError> {
        let pattern = PathPattern::parse(path)?;
        let mut removed = 0;
        // Backwards, so that removals do not shift the positions of the others.
        for trail in pattern.locate(self, usize::MAX).iter().rev() {
            removed += match &pattern.target {
                Target::Element => remove_element(self, trail),
                Target::Attribute(test) => self
                    .at_mut(trail)
                    .map_or(0, |owner| remove_attributes(owner, test)),
            };
        }
        Ok(removed)
    }
}

fn remove_element(origin: &mut Element, trail: &[usize]) -> usize {
    let Some((last, above)) = trail.split_last() else {
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
    let (own, below) = if pattern.absolute {
        steps.split_at(1)
    } else {
        steps.split_at(0)
    };
    if let Some((name, _)) = own.first()
        && !origin.is(name)
    {
        return Err(pattern.error(PathErrorKind::OtherRoot(origin.name().to_owned())));
    }
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
        } => Ok((names.as_slice(), target, value.as_str())),
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
                super::select::holds(element, names, target, Some(value))
            })
    };
    if let Some(at) = parent.position(fits) {
        return parent.element_at(at);
    }
    let mut made = Element::new(name);
    for (names, target, value) in conditions {
        let mut place = &mut made;
        for name in *names {
            place = place.ensure_child(name);
        }
        match target {
            Target::Attribute(NameTest::Exact(attribute)) => place.set_attr(attribute, value),
            Target::Attribute(_) | Target::Element => place.set_text(value),
        };
    }
    parent.append(made)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::Document;

    const DOMAIN: &str = "<domain type='kvm' xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>vm</name>
  <devices>
    <disk type='file'>
      <target dev='vda'/>
      <driver name='qemu'/>
    </disk>
    <disk type='file'>
      <target dev='vdb'/>
    </disk>
  </devices>
  <q:commandline>
    <q:arg value='-S'/>
  </q:commandline>
</domain>
";

    #[test]
    fn paths_select_elements_attributes_and_text() {
        let domain = Document::parse(DOMAIN).unwrap();
        let value = |path: &str| domain.value(path).unwrap();
        assert_eq!(value("name").as_deref(), Some("vm"));
        assert_eq!(value("/domain/@type").as_deref(), Some("kvm"));
        assert_eq!(
            value("devices/disk[target/@dev='vda']/driver/@name").as_deref(),
            Some("qemu")
        );
        assert_eq!(value("devices/disk[target/@dev='vdb']/driver/@name"), None);
        assert_eq!(value("devices/disk[2]/target/@dev").as_deref(), Some("vdb"));
        assert_eq!(
            value("qemu:commandline/qemu:arg/@value").as_deref(),
            Some("-S")
        );
        assert_eq!(value("qemu:*/qemu:*/@*").as_deref(), Some("-S"));
        assert_eq!(value("/other/name"), None);
        assert_eq!(
            domain.root().values("**/target/@dev").unwrap(),
            ["vda", "vdb"]
        );
        assert_eq!(domain.find_all("devices/disk[driver]").unwrap().len(), 1);
        assert_eq!(domain.find_all("/domain/devices/**").unwrap().len(), 6);
        assert_eq!(domain.find_all("**").unwrap().len(), 10);
    }

    #[test]
    fn ensure_creates_missing_elements_once() {
        let mut domain = Document::parse(DOMAIN).unwrap();
        for _ in 0..2 {
            domain
                .root_mut()
                .set("devices/disk[target/@dev='vdb']/driver/@queues", "4")
                .unwrap();
            domain
                .root_mut()
                .set(
                    "sysinfo[@type='smbios']/baseBoard/entry[@name='serial']",
                    "a<b",
                )
                .unwrap();
        }
        let expected = DOMAIN
            .replace("'vdb'/>\n", "'vdb'/>\n      <driver queues='4'/>\n")
            .replace("</domain>", "  <sysinfo type='smbios'>\n    <baseBoard>\n      <entry name='serial'>a&lt;b</entry>\n    </baseBoard>\n  </sysinfo>\n</domain>");
        assert_eq!(domain.render(), expected);
    }

    #[test]
    fn ensure_refuses_paths_that_define_no_element() {
        let mut domain = Document::parse(DOMAIN).unwrap();
        for path in [
            "devices/*",
            "**",
            "devices/disk[3]",
            "devices/disk[driver]",
            "/other/name",
            "devices/@x",
            "devices/@*",
        ] {
            assert!(domain.ensure(path).is_err(), "{path}");
        }
        assert!(domain.root_mut().set("devices/@*", "x").is_err());
        assert_eq!(domain.render(), DOMAIN);
    }

    #[test]
    fn remove_takes_whole_lines() {
        let mut domain = Document::parse(DOMAIN).unwrap();
        assert_eq!(domain.root_mut().remove("devices/disk").unwrap(), 2);
        assert_eq!(domain.root_mut().remove("qemu:commandline").unwrap(), 1);
        assert_eq!(domain.root_mut().remove("@type").unwrap(), 1);
        assert_eq!(domain.root_mut().remove("/domain").unwrap(), 0);
        assert_eq!(
            domain.render(),
            "<domain xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>\n  <name>vm</name>\n  <devices></devices>\n</domain>\n"
        );
    }

    #[test]
    fn remove_handles_nested_matches() {
        let mut domain = Document::parse("<a>\n <b>\n  <b/>\n </b>\n <b/>\n</a>").unwrap();
        assert_eq!(domain.root_mut().remove("**/b").unwrap(), 3);
        assert_eq!(domain.render(), "<a></a>");
    }
}
