//! The part of the host's rules on paths that native tests check: every difference of two documents needs a declared
//! path that covers it. An attribute's path covers its value, an element's path the element with its text and attributes,
//! one that ends in `**` all of these and what is inside. An element without attributes and text is covered by what is in
//! it.
//!
//! The host besides checks the conditions of paths and that a new parent is nothing but a container, and refuses wildcards
//! for what is dangerous, predicates that fit several siblings, and another order of children. Whatever the host permits
//! passes here.

use std::collections::{BTreeMap, HashSet};
use std::ptr;

use domain_xml::{Element, PathError, PathPattern};

/// Something that an element has: its path, the part (empty for the element itself, `@` and an attribute's name, or
/// `text`), and the value.
type Content = (String, String, String);
/// The contents of a document, and the elements that have each.
type Contents<'a> = BTreeMap<Content, Vec<&'a Element>>;

/// What a declared path selects in a document.
struct Selection<'a> {
    pattern: &'a PathPattern,
    elements: HashSet<*const Element>,
}

/// A change that no declared path covers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UndeclaredChange {
    /// What changed.
    pub(super) path: String,
    /// A path that covers the change.
    pub(super) wish: String,
}

/// The first change that no path covers.
pub(super) fn first_undeclared_change(
    paths: &[&str],
    before: &Element,
    after: &Element,
) -> Result<Option<UndeclaredChange>, PathError> {
    let patterns: Result<Vec<_>, _> = paths.iter().map(|path| PathPattern::parse(path)).collect();
    let patterns = patterns?;
    let (old, new) = (contents(before), contents(after));
    let sides = [(&new, &old, after), (&old, &new, before)];
    let found = sides
        .into_iter()
        .find_map(|(own, other, root)| undeclared_change(&patterns, own, other, root));
    Ok(found)
}

fn contents(root: &Element) -> Contents<'_> {
    let mut contents = Contents::new();
    let mut pending = vec![(format!("/{}", root.canonical_name()), root)];
    while let Some((path, element)) = pending.pop() {
        let mut add = |part: String, value: String| {
            let holders = contents.entry((path.clone(), part, value)).or_default();
            holders.push(element);
        };
        add(String::new(), String::new());
        for name in element.attribute_names() {
            let value = element.attr(name).unwrap_or_default();
            if !name.starts_with("xmlns") {
                add(format!("@{name}"), value.into_owned());
            }
        }
        let text = element.text();
        if !text.trim().is_empty() {
            add("text".to_owned(), text.trim().to_owned());
        }
        let children = element.children();
        pending.extend(children.map(|child| (format!("{path}/{}", child.canonical_name()), child)));
    }
    contents
}

/// What one document has and the other has not. Elements with equal content are not told apart, so that as many of them
/// must be covered as there are more.
fn undeclared_change(
    patterns: &[PathPattern],
    own: &Contents<'_>,
    other: &Contents<'_>,
    root: &Element,
) -> Option<UndeclaredChange> {
    let selections: Vec<Selection<'_>> = patterns
        .iter()
        .map(|pattern| Selection {
            pattern,
            elements: pattern
                .find_all(root)
                .into_iter()
                .map(ptr::from_ref)
                .collect(),
        })
        .collect();
    let count =
        |contents: &Contents<'_>, content: &Content| contents.get(content).map_or(0, Vec::len);
    let refused = own.iter().find(|(content, holders)| {
        let is_covered = |element: &&&Element| {
            let mut selections = selections.iter();
            content.1.is_empty() && is_bare_parent(element)
                || selections.any(|selection| selection.covers(&content.1, element))
        };
        let covered = holders.iter().filter(is_covered).count();
        holders.len() > count(other, content) + covered
    })?;
    let (path, part, _) = refused.0;
    let place = match part.strip_prefix('@') {
        Some(_) => format!("{path}/{part}"),
        None => path.clone(),
    };
    // An element that comes or goes with attributes or children is covered as a whole.
    let is_new = |top: &&str| {
        let element = ((*top).to_owned(), String::new(), String::new());
        count(own, &element) > count(other, &element)
    };
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
    let mut tops = ends.chain([path.len()]).filter_map(|end| path.get(..end));
    let wish = match tops.find(is_new) {
        Some(top) if has_content(own, top) => format!("{top}/**"),
        Some(top) => top.to_owned(),
        None => place.clone(),
    };
    Some(UndeclaredChange { path: place, wish })
}

/// Whether an element is there for its children alone.
fn is_bare_parent(element: &Element) -> bool {
    element.children().next().is_some()
        && element.attribute_names().next().is_none()
        && element.text().trim().is_empty()
}

/// Whether an element has attributes or children.
fn has_content(contents: &Contents<'_>, top: &str) -> bool {
    contents.keys().any(|(path, part, _)| {
        let inside = path.strip_prefix(top);
        inside.is_some_and(|rest| rest.starts_with('/') || rest.is_empty() && part.starts_with('@'))
    })
}

impl Selection<'_> {
    fn covers(&self, part: &str, element: &Element) -> bool {
        if !self.elements.contains(&ptr::from_ref(element)) {
            return false;
        }
        match (attribute_of(self.pattern), part.strip_prefix('@')) {
            (None, None) => true,
            // One that ends in `*` covers elements alone.
            (None, Some(_)) => {
                let path = self.pattern.as_str();
                path.ends_with("**") || !path.ends_with('*')
            }
            (Some(_), None) => false,
            (Some(test), Some(name)) => match test.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => name == test,
            },
        }
    }
}

/// The attribute in which a path ends; predicates end in a bracket.
fn attribute_of(pattern: &PathPattern) -> Option<&str> {
    let last = pattern.as_str().rsplit('/').next()?;
    last.strip_prefix('@').filter(|name| !name.ends_with(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISKS: &str = "<domain><name>vm</name><devices>\
        <disk><target dev='vda'/><driver io='native'/></disk>\
        <disk><target dev='vdb'/><driver io='threads'/></disk></devices></domain>";

    /// The missing wish after an edit, under these paths.
    fn missing(paths: &[&str], edit: fn(&mut Element)) -> Option<String> {
        let before = Element::parse(DISKS).unwrap();
        let mut after = before.clone();
        edit(&mut after);
        let found = first_undeclared_change(paths, &before, &after).unwrap();
        found.map(|change| change.wish)
    }

    #[test]
    fn a_path_covers_what_it_selects() {
        let queues = |domain: &mut Element| {
            let path = "devices/disk[target/@dev='vdb']/driver/@queues";
            domain.set(path, "2").unwrap();
        };
        for path in [
            "/domain/devices/disk[target/@dev='vdb']/driver/@queues",
            "/domain/devices/disk[2]/driver/@*",
            "/domain/devices/*/*/@queues",
            "/domain/devices/**/driver/**",
            "/domain/devices/disk/driver",
            "/domain/**",
        ] {
            assert_eq!(missing(&[path], queues), None, "{path}");
        }
        for path in [
            "/domain/devices/disk[target/@dev='vda']/driver/@queues",
            "/domain/devices/disk/driver/@io",
            "/domain/devices/disk/*",
            "/domain/devices/disk[target/@dev]",
            "/domain/devices/disk[1]/**",
        ] {
            let wish = missing(&[path], queues);
            assert_eq!(
                wish.unwrap(),
                "/domain/devices/disk/driver/@queues",
                "{path}"
            );
        }
        assert_eq!(missing(&[], |_| ()), None);
    }

    #[test]
    fn an_element_that_comes_or_goes_is_covered_with_what_is_in_it() {
        let watchdog = |domain: &mut Element| {
            domain.set("devices/watchdog/@model", "itco").unwrap();
        };
        let wish = "/domain/devices/watchdog/**";
        assert_eq!(missing(&[], watchdog).unwrap(), wish);
        for path in [wish, "/domain/devices/watchdog"] {
            assert_eq!(missing(&[path], watchdog), None);
        }
        let pin = |domain: &mut Element| {
            let path = "cputune/iothreadpin[@iothread='1']/@cpuset";
            domain.set(path, "3").unwrap();
        };
        assert_eq!(missing(&["/domain/cputune/iothreadpin/**"], pin), None);
        assert_eq!(
            missing(&["/domain/cputune/shares"], pin).unwrap(),
            "/domain/cputune/**"
        );
        let removed = |domain: &mut Element| {
            domain.remove("devices/disk[2]").unwrap();
        };
        assert_eq!(
            missing(&["/domain/devices"], removed).unwrap(),
            "/domain/devices/disk/**"
        );
        assert_eq!(
            missing(&["/domain/devices/disk[target/@dev='vdb']/**"], removed),
            None
        );
        let title = |domain: &mut Element| {
            domain.set("title", "a").unwrap();
        };
        assert_eq!(missing(&[], title).unwrap(), "/domain/title");
        assert_eq!(missing(&["/domain/title"], title), None);
    }
}
