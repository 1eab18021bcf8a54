//! The changes in a diff.

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// The place is new.
    Inserted,
    /// The place was removed.
    Removed,
    /// The value changed.
    Edited,
    /// The element has another position among its siblings.
    Moved,
}

/// One difference between two documents. Changes are compared by path, kind and values.
#[derive(Debug, Clone)]
pub struct Change {
    /// A [`PathPattern`](crate::PathPattern) that selects the place in the document before, or in the document after
    /// for an insertion.
    pub path: String,
    /// The kind of change.
    pub kind: ChangeKind,
    /// An attribute's value, an element's own text, a removed element as XML without layout;
    /// for a move the position among the siblings of its name, from 1.
    pub before: Option<String>,
    /// The same for the document after.
    pub after: Option<String>,
    /// The place, if the change comes from a diff.
    pub(crate) place: Option<Box<Place>>,
}

/// The position of a change in both documents, by indices rather than by its path.
#[derive(Debug, Clone)]
pub struct Place {
    /// The element, or the one with the attribute, in the document before: its index among the
    /// element children, level by level below the root. For an insertion, the parent.
    pub before: Vec<usize>,
    /// The same in the document after. For a removal, the parent.
    pub after: Vec<usize>,
    /// What changed there.
    pub part: Part,
    /// Of an inserted or moved element: how many siblings of its name stand before it in the document after.
    pub(crate) rank: usize,
    /// The namespaces of prefixes that an inserted element or attribute uses without declaring them.
    pub(crate) namespaces: Vec<Binding>,
}

/// A prefix, empty for the default namespace, and its namespace.
pub(crate) type Binding = (String, Option<String>);

/// The part of an element that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The element itself.
    Element,
    /// An attribute, by its name as written.
    Attribute(String),
    /// The element's text.
    Text,
    /// The root element was replaced, or there are too many changes to list.
    Document,
}

impl Change {
    /// A change that does not come from a [`diff`](crate::host::diff()). It can be shown and compared;
    /// [`apply`](crate::host::apply()) and grants refuse it.
    pub fn new(
        path: impl Into<String>,
        kind: ChangeKind,
        before: Option<String>,
        after: Option<String>,
    ) -> Change {
        Change {
            path: path.into(),
            kind,
            before,
            after,
            place: None,
        }
    }
}

impl Change {
    /// The position in both documents; `None` if no diff found the change.
    pub fn place(&self) -> Option<&Place> {
        self.place.as_deref()
    }
}

impl PartialEq for Change {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, self.kind, &self.before, &self.after)
            == (&other.path, other.kind, &other.before, &other.after)
    }
}

impl Eq for Change {}
