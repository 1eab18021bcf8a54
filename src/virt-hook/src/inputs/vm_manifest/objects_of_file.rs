//! The objects of a manifest file: its documents, the items of lists, and the objects of templates.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};

use super::{Note, openshift_template};

const LIST_SUFFIX: &str = "List";

/// An object of a file.
#[derive(Debug)]
pub(super) struct FileObject<'a> {
    pub(super) value: Cow<'a, Value>,
    /// The kind of objects that name none, by their list.
    kind_of_list: Option<&'a str>,
    /// Where the object is; `None` for the only object of the file.
    pub(super) place: Option<Place>,
    /// Notes about where the object comes from.
    pub(super) notes: Vec<Note>,
}

/// Where an object is in its file. Positions begin with 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    document: Option<usize>,
    /// The position in a list, and those in the lists in it.
    items: Vec<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let document = self.document.map(|number| format!("document {number}"));
        let items = self.items.iter().map(|number| format!("item {number}"));
        let parts: Vec<String> = document.into_iter().chain(items).collect();
        f.write_str(&parts.join(", "))
    }
}

impl FileObject<'_> {
    /// The kind that the object names, or that of its list: the API server names no kind in the items of its lists.
    pub(super) fn kind(&self) -> Option<&str> {
        let named = self
            .value
            .get("kind")
            .and_then(Value::as_str)
            .filter(|kind| !kind.is_empty());
        named.or(self.kind_of_list)
    }
}

/// The objects of a file's documents, in their order.
pub(super) fn objects(documents: &[Value]) -> Vec<FileObject<'_>> {
    let mut found = Vec::new();
    let has_several = documents.len() > 1;
    for (index, document) in documents.iter().enumerate() {
        let place = Place {
            document: has_several.then_some(index + 1),
            items: Vec::new(),
        };
        add(document, None, has_several.then_some(place), &mut found);
    }
    found
}

/// Adds an object, or the items of a list or template.
fn add<'a>(
    value: &'a Value,
    kind_of_list: Option<&'a str>,
    place: Option<Place>,
    found: &mut Vec<FileObject<'a>>,
) {
    let fields = value.as_object();
    if let Some(kind) = fields.and_then(list_kind) {
        let kind = kind.strip_suffix(LIST_SUFFIX);
        let kind = kind.filter(|kind| !kind.is_empty());
        let items = value.get("items").and_then(Value::as_array);
        for (index, item) in items.into_iter().flatten().enumerate() {
            add(item, kind, Some(item_place(place.as_ref(), index)), found);
        }
    } else if fields.is_some_and(openshift_template::is_template)
        && let Some((objects, note)) = openshift_template::process(value)
    {
        let items = objects.into_iter().enumerate();
        found.extend(items.map(|(index, item)| FileObject {
            value: Cow::Owned(item),
            kind_of_list: None,
            place: Some(item_place(place.as_ref(), index)),
            notes: vec![note.clone()],
        }));
    } else {
        found.push(FileObject {
            value: Cow::Borrowed(value),
            kind_of_list,
            place,
            notes: Vec::new(),
        });
    }
}

fn item_place(list: Option<&Place>, index: usize) -> Place {
    let mut items = list.map_or_else(Vec::new, |list| list.items.clone());
    items.push(index + 1);
    Place {
        document: list.and_then(|list| list.document),
        items,
    }
}

/// The kind of a list, such as `List` and `VirtualMachineList`.
fn list_kind(fields: &Map<String, Value>) -> Option<&str> {
    let kind = fields.get("kind")?.as_str()?;
    let is_list = fields.get("items").is_some_and(Value::is_array);
    (kind.ends_with(LIST_SUFFIX) && (is_list || kind == LIST_SUFFIX)).then_some(kind)
}
