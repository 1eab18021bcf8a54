//! What prefixes mean at a place.

use std::collections::HashMap;
use std::rc::Rc;

use crate::{Element, name};

/// The declarations of an element, and those around it.
pub(super) struct Scope {
    parent: Option<Rc<Scope>>,
    bound: HashMap<String, Rc<str>>,
}

/// A name that is the same whatever prefix it is written with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Name<'a> {
    namespace: Option<Rc<str>>,
    local: &'a str,
}

/// The scope inside an element.
pub(super) fn enter(parent: Option<&Rc<Scope>>, element: &Element) -> Option<Rc<Scope>> {
    let bound = declarations(element);
    if bound.is_empty() {
        return parent.cloned();
    }
    Some(Rc::new(Scope {
        parent: parent.cloned(),
        bound,
    }))
}

fn declarations(element: &Element) -> HashMap<String, Rc<str>> {
    let declared = element.attributes.iter().filter_map(|attribute| {
        let prefix = name::declared_prefix(&attribute.name)?;
        Some((prefix.to_owned(), attribute.value().as_ref().into()))
    });
    declared.collect()
}

/// Whether two elements declare the same.
pub(super) fn same_declarations(a: &Element, b: &Element) -> bool {
    let declares = |element: &Element| {
        element
            .attributes
            .iter()
            .any(|attribute| name::declared_prefix(&attribute.name).is_some())
    };
    (!declares(a) && !declares(b)) || declarations(a) == declarations(b)
}

/// Whether two scopes at the root mean the same.
pub(super) fn agree(a: Option<&Rc<Scope>>, b: Option<&Rc<Scope>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a.bound == b.bound,
        _ => false,
    }
}

fn resolve(mut scope: Option<&Rc<Scope>>, prefix: &str) -> Option<Rc<str>> {
    while let Some(here) = scope {
        if let Some(uri) = here.bound.get(prefix) {
            return Some(uri.clone()).filter(|uri| !uri.is_empty());
        }
        scope = here.parent.as_ref();
    }
    None
}

impl<'a> Name<'a> {
    /// The name of an element, given the scope inside it.
    pub(super) fn of(element: &'a Element, scope: Option<&Rc<Scope>>) -> Name<'a> {
        let (prefix, local) = name::split(&element.name);
        match resolve(scope, prefix) {
            Some(uri) => Name {
                namespace: Some(uri),
                local,
            },
            // Rendering will declare it.
            None if element.made => match name::known_uri(prefix) {
                Some(uri) => Name {
                    namespace: Some(uri.into()),
                    local,
                },
                None => Name {
                    namespace: None,
                    local: &element.name,
                },
            },
            None => Name {
                namespace: None,
                local: &element.name,
            },
        }
    }

    /// The name of an attribute; without a prefix it has no namespace.
    pub(super) fn of_attribute(written: &'a str, scope: Option<&Rc<Scope>>) -> Name<'a> {
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
