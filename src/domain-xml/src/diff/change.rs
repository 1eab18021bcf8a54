//! What a diff tells.

/// What happened to a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It is new.
    Inserted,
    /// It is gone.
    Removed,
    /// Its value is another one.
    Edited,
    /// It stands elsewhere among its siblings.
    Moved,
}

/// One difference between two documents. Two changes are equal when they say the same.
#[derive(Debug, Clone)]
pub struct Change {
    /// Where: a [`PathPattern`](crate::PathPattern) that selects the place in the document
    /// before, or for something inserted in the document after.
    pub path: String,
    /// What happened there.
    pub kind: ChangeKind,
    /// An attribute's value, an element's own text, a removed element as XML without layout;
    /// for a move the position among the sibling elements, from 1.
    pub before: Option<String>,
    /// The same of the document after.
    pub after: Option<String>,
    /// The place itself, when a diff told the change.
    pub(crate) place: Option<Box<Place>>,
}

/// Where a change is in both documents, whatever its path says.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The element, or the one that has the attribute, in the document before: its index among
    /// the element children, level by level below the root. Of something inserted, its parent.
    pub(crate) before: Vec<usize>,
    /// The same in the document after. Of something removed, its parent.
    pub(crate) after: Vec<usize>,
    pub(crate) part: Part,
    /// What the free prefixes of an inserted element or attribute mean; none when nothing.
    pub(crate) namespaces: Vec<Binding>,
}

/// A prefix, empty for the default namespace, and what it stands for.
pub(crate) type Binding = (String, Option<String>);

/// What of the place changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Element,
    /// By the name as written.
    Attribute(String),
    Text,
    /// The root element became another one, or more changed than can be told apart.
    Document,
}

impl Change {
    /// A change that something other than a [`diff`](crate::diff()) of XML found. It can be
    /// shown and compared; [`apply`](crate::apply()) and grants refuse it.
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

impl PartialEq for Change {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, self.kind, &self.before, &self.after)
            == (&other.path, other.kind, &other.before, &other.after)
    }
}

impl Eq for Change {}
