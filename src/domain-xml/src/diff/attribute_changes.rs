//! Compares the attributes of an element in both documents.

use super::attribute_index::AttributeIndex;
use super::element_paths::Side;
use super::tree_walk::{Differ, Pair};
use super::{Change, ChangeKind, Part, namespace_scope};
use crate::name;
use crate::start_tag::Attribute;

impl<'a> Differ<'a, '_> {
    pub(super) fn attributes(&mut self, pair: &Pair<'a>) {
        if pair.same_namespaces && pair.before.tag() == pair.after.tag() {
            return;
        }
        let before = AttributeIndex::new(pair.before, pair.scopes.0.as_ref());
        let after = AttributeIndex::new(pair.after, pair.scopes.1.as_ref());
        for (at, (name, attribute)) in before.list.iter().enumerate() {
            let now = after.get(name, at);
            if now.is_some_and(|now| now.raw == attribute.raw || now.value() == attribute.value()) {
                continue;
            }
            let kind = if now.is_some() {
                ChangeKind::Edited
            } else {
                ChangeKind::Removed
            };
            let value = Some(attribute.value().into_owned());
            let now = now.map(|attribute| attribute.value().into_owned());
            self.attribute(pair, attribute, kind, (value, now));
        }
        for (at, (name, attribute)) in after.list.iter().enumerate() {
            if before.get(name, at).is_none() {
                let value = Some(attribute.value().into_owned());
                self.attribute(pair, attribute, ChangeKind::Inserted, (None, value));
            }
        }
    }

    fn attribute(
        &mut self,
        pair: &Pair<'a>,
        attribute: &Attribute<'_>,
        kind: ChangeKind,
        (before, after): (Option<String>, Option<String>),
    ) {
        if self.is_full() {
            return;
        }
        let (side, scope) = if kind == ChangeKind::Inserted {
            (Side::After, pair.scopes.1.as_ref())
        } else {
            (Side::Before, pair.scopes.0.as_ref())
        };
        let written = attribute.name;
        let mut place = self.place(pair.visit, Part::Attribute(written.to_owned()));
        let prefix = name::split(written).0;
        if !prefix.is_empty() {
            let bound = namespace_scope::resolve(scope, prefix).map(|uri| uri.to_string());
            place.namespaces.push((prefix.to_owned(), bound));
        }
        let mut path = self.paths.path(pair.visit, side);
        path.push_str("/@");
        path.push_str(written);
        self.report(Change {
            path,
            kind,
            before,
            after,
            place: Some(Box::new(place)),
        });
    }
}
