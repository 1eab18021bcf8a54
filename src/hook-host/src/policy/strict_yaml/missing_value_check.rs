//! The check that every key and every item of a YAML document has a value (`CompleteDocument`).

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Any document in which every key and every item has a value. Without this check `paths:` without a
/// value would mean that no path is limited, although its author meant an empty list.
pub(super) struct CompleteDocument;

impl<'de> Deserialize<'de> for CompleteDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CompleteDocumentVisitor)
    }
}

struct CompleteDocumentVisitor;

impl<'de> Visitor<'de> for CompleteDocumentVisitor {
    type Value = CompleteDocument;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value: [] for an empty list, {} for nothing set")
    }

    fn visit_bool<E>(self, _: bool) -> Result<CompleteDocument, E> {
        Ok(CompleteDocument)
    }

    fn visit_i64<E>(self, _: i64) -> Result<CompleteDocument, E> {
        Ok(CompleteDocument)
    }

    fn visit_u64<E>(self, _: u64) -> Result<CompleteDocument, E> {
        Ok(CompleteDocument)
    }

    fn visit_i128<E>(self, _: i128) -> Result<CompleteDocument, E> {
        Ok(CompleteDocument)
    }

    fn visit_u128<E>(self, _: u128) -> Result<CompleteDocument, E> {
        Ok(CompleteDocument)
    }

    fn visit_f64<E>(self, _: f64) -> Result<CompleteDocument, E> {
        Ok(CompleteDocument)
    }

    fn visit_str<E>(self, _: &str) -> Result<CompleteDocument, E> {
        Ok(CompleteDocument)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<CompleteDocument, D::Error> {
        CompleteDocument::deserialize(inner)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<CompleteDocument, A::Error> {
        while items.next_element::<CompleteDocument>()?.is_some() {}
        Ok(CompleteDocument)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<CompleteDocument, A::Error> {
        while entries.next_key::<IgnoredAny>()?.is_some() {
            entries.next_value::<CompleteDocument>()?;
        }
        Ok(CompleteDocument)
    }
}
