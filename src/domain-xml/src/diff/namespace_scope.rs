//! `Scope`: the namespaces of prefixes inside an element, and names with their namespace.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::Binding;
use crate::{Element, name};

/// The declarations of an element and its ancestors.
pub(crate) struct Scope {
    parent: Option<Rc<Scope>>,
    bound: HashMap<String, Rc<str>>,
}

/// A name with its namespace, whatever prefix it is written with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name<'a> {
    namespace: Option<Rc<str>>,
    local: &'a str,
}

/// The scope inside an element.
pub(crate) fn enter(parent: Option<&Rc<Scope>>, element: &Element) -> Option<Rc<Scope>> {
    if element.declarations().next().is_none() {
        return parent.cloned();
    }
    let bound = declarations(element);
    Some(Rc::new(Scope {
        parent: parent.cloned(),
        bound,
    }))
}

fn declarations(element: &Element) -> HashMap<String, Rc<str>> {
    let declared = element.declarations();
    declared
        .map(|(prefix, uri)| (prefix.to_owned(), uri.as_ref().into()))
        .collect()
}

/// Whether two elements have the same declarations.
pub(crate) fn same_declarations(a: &Element, b: &Element) -> bool {
    let none = |element: &Element| element.declarations().next().is_none();
    (none(a) && none(b)) || declarations(a) == declarations(b)
}

/// Whether two root scopes are equal.
pub(crate) fn same_root_scope(a: Option<&Rc<Scope>>, b: Option<&Rc<Scope>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a.bound == b.bound,
        _ => false,
    }
}

/// The namespace of a prefix.
pub(crate) fn resolve(mut scope: Option<&Rc<Scope>>, prefix: &str) -> Option<Rc<str>> {
    while let Some(here) = scope {
        if let Some(uri) = here.bound.get(prefix) {
            return Some(uri.clone()).filter(|uri| !uri.is_empty());
        }
        scope = here.parent.as_ref();
    }
    None
}

/// The prefixes that an element and its descendants use without declaring them, and their namespaces.
pub(crate) fn undeclared_prefixes(root: &Element, outer: Option<&Rc<Scope>>) -> Vec<Binding> {
    let mut found: Vec<Binding> = Vec::new();
    let mut known: HashSet<&str> = HashSet::new();
    let mut pending: Vec<(&Element, Option<Rc<Scope>>)> = vec![(root, None)];
    while let Some((element, scope)) = pending.pop() {
        let scope = enter(scope.as_ref(), element);
        let own = name::split(element.tag_name()).0;
        let attributes = element.attributes().map(|attribute| attribute.name);
        let plain = attributes.filter(|name| name::declared_prefix(name).is_none());
        let prefixes = plain.map(|name| name::split(name).0);
        let used = std::iter::once(own).chain(prefixes.filter(|prefix| !prefix.is_empty()));
        for prefix in used {
            if known.contains(prefix) || is_bound(scope.as_ref(), prefix) {
                continue;
            }
            known.insert(prefix);
            let mut uri = resolve(outer, prefix).map(|uri| uri.to_string());
            if uri.is_none() && element.is_made() {
                // Rendering will declare it.
                uri = name::known_uri(prefix).map(str::to_owned);
            }
            found.push((prefix.to_owned(), uri));
        }
        pending.extend(element.children().map(|child| (child, scope.clone())));
    }
    found
}

fn is_bound(mut scope: Option<&Rc<Scope>>, prefix: &str) -> bool {
    while let Some(here) = scope {
        if here.bound.contains_key(prefix) {
            return true;
        }
        scope = here.parent.as_ref();
    }
    false
}

impl<'a> Name<'a> {
    /// The name of an element, given the scope inside it.
    pub(crate) fn of(element: &'a Element, scope: Option<&Rc<Scope>>) -> Name<'a> {
        let written = element.tag_name();
        let (prefix, local) = name::split(written);
        let mut namespace = resolve(scope, prefix);
        if namespace.is_none() && element.is_made() {
            // Rendering will declare it.
            namespace = name::known_uri(prefix).map(Rc::from);
        }
        let local = if namespace.is_some() { local } else { written };
        Name { namespace, local }
    }

    /// The name of an attribute; without a prefix it has no namespace.
    pub(crate) fn of_attribute(written: &'a str, scope: Option<&Rc<Scope>>) -> Name<'a> {
        let (prefix, local) = name::split(written);
        match (!prefix.is_empty())
            .then(|| resolve(scope, prefix))
            .flatten()
        {
            Some(uri) => Name {
                namespace: Some(uri),
                local,
            },
            None => Name {
                namespace: None,
                local: written,
            },
        }
    }
}
