//! The namespaces in scope where an edit inserts an element, and the element's name in that scope.

use std::borrow::Cow;
use std::sync::Arc;

use crate::source_text::Origin;
use crate::{Element, name};

/// The namespaces in scope at a place; empty outside of a document.
#[derive(Debug, Clone, Default)]
pub(crate) struct InsertionScope(Option<Arc<ScopeLevel>>);

#[derive(Debug)]
struct ScopeLevel {
    around: InsertionScope,
    /// The canonical prefix of each declared prefix's namespace; `None` for an unknown namespace.
    bound: Vec<(Box<str>, Option<&'static str>)>,
}

/// The name of an inserted element in its scope.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedName {
    scope: InsertionScope,
    /// The canonical prefix of the name's namespace, if that is a known one.
    namespace: Option<&'static str>,
    /// The name with the canonical prefix, if the document uses another.
    pub(crate) canonical: Option<Box<str>>,
}

impl InsertionScope {
    /// The scope of an element's children.
    pub(crate) fn inside(element: &Element) -> InsertionScope {
        let around = match (&element.origin, &element.placed) {
            (Some(origin), _) => InsertionScope::around(origin),
            (None, Some(placed)) => placed.scope.clone(),
            (None, None) => InsertionScope::default(),
        };
        around.with(element)
    }

    fn around(origin: &Origin) -> InsertionScope {
        let declaring = origin.declaring_around().map(Element::read);
        declaring.fold(InsertionScope::default(), |around, element| {
            around.with(&element)
        })
    }

    fn with(self, element: &Element) -> InsertionScope {
        let meaning =
            |(prefix, uri): (&str, Cow<'_, str>)| (prefix.into(), name::canonical_prefix(&uri));
        let bound: Vec<_> = element.declarations().map(meaning).collect();
        if bound.is_empty() {
            return self;
        }
        let around = self;
        InsertionScope(Some(Arc::new(ScopeLevel { around, bound })))
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The declared prefixes, innermost first.
    fn bound(&self) -> impl Iterator<Item = (&str, Option<&'static str>)> {
        let declared = std::iter::successors(self.0.as_deref(), |inner| inner.around.0.as_deref());
        let bound = declared.flat_map(|declared| &declared.bound);
        bound.map(|(prefix, namespace)| (&**prefix, *namespace))
    }

    /// Whether a prefix is declared, and for which known namespace.
    fn binding(&self, prefix: &str) -> Option<Option<&'static str>> {
        let mut bound = self.bound();
        Some(bound.find(|(bound, _)| *bound == prefix)?.1)
    }

    /// The prefix of a known namespace.
    fn prefix_of(&self, namespace: &str) -> Option<&str> {
        let mut prefixes = self.bound().map(|(prefix, _)| prefix);
        prefixes.find(|prefix| self.binding(prefix) == Some(Some(namespace)))
    }
}

/// Drops deep scopes without recursion.
impl Drop for ScopeLevel {
    fn drop(&mut self) {
        let mut around = self.around.0.take();
        while let Some(mut declared) = around.and_then(Arc::into_inner) {
            around = declared.around.0.take();
        }
    }
}

/// Renames an inserted element and its descendants for a scope: they are written with the document's prefixes and
/// found by the canonical ones. Elements that were read keep their names.
pub(crate) fn apply_prefixes(element: &mut Element, scope: InsertionScope) {
    let mut pending = vec![(element, scope)];
    while let Some((element, scope)) = pending.pop() {
        if !element.is_made() {
            continue;
        }
        let was = element.placed.as_ref();
        let moved = was.is_some_and(|placed| !placed.scope.is_empty());
        let namespace = rename(element, &scope.clone().with(element));
        let inside = scope.clone().with(element);
        let placed = ResolvedName {
            canonical: namespace.and_then(|prefix| name::canonical(element.tag_name(), prefix)),
            namespace,
            scope,
        };
        let nowhere = placed.scope.is_empty();
        element.placed = (!nowhere || namespace.is_some()).then(|| Box::new(placed));
        if moved || !nowhere {
            let children = element.made_children();
            pending.extend(children.map(|child| (child, inside.clone())));
        }
    }
}

/// Writes the name with the scope's prefix, and returns the canonical prefix of its namespace.
fn rename(element: &mut Element, scope: &InsertionScope) -> Option<&'static str> {
    let (prefix, local) = name::split(element.tag_name());
    let settled = element.placed.as_ref().and_then(|placed| placed.namespace);
    let found = scope.binding(prefix);
    let namespace = match (settled, found) {
        (Some(namespace), _) => namespace,
        (None, Some(found)) => return found,
        (None, None) => name::canonical_prefix(name::known_uri(prefix)?)?,
    };
    if found == Some(Some(namespace)) {
        return Some(namespace);
    }
    let own = scope.prefix_of(namespace);
    let name = match own.unwrap_or(namespace) {
        "" => local.to_owned(),
        prefix => format!("{prefix}:{local}"),
    };
    // If no prefix is bound to the namespace and its canonical prefix is bound to another one, the element declares it.
    let declares = own.is_none() && (namespace.is_empty() || scope.binding(namespace).is_some());
    element.rename(&name);
    if declares {
        let (attribute, uri) = name::declaration(namespace);
        element.put_attr(&attribute, uri);
    }
    Some(namespace)
}
