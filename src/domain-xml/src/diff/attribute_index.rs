//! An index of the attributes of one element by name.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::namespace_scope::{Name, Scope};
use crate::start_tag::Attribute;
use crate::{Element, name};

/// The attributes that are not namespace declarations.
pub(super) struct AttributeIndex<'a> {
    pub(super) list: Vec<(Name<'a>, Attribute<'a>)>,
    /// Positions in `list` by name, built on the first miss.
    positions: OnceCell<HashMap<Name<'a>, usize>>,
}

impl<'a> AttributeIndex<'a> {
    pub(super) fn new(element: &'a Element, scope: Option<&Rc<Scope>>) -> AttributeIndex<'a> {
        let all = element.attributes();
        let plain = all.filter(|attribute| name::declared_prefix(attribute.name).is_none());
        let named = |a: Attribute<'a>| (Name::of_attribute(a.name, scope), a);
        AttributeIndex {
            list: plain.map(named).collect(),
            positions: OnceCell::new(),
        }
    }

    /// The attribute of this name, looked for at the expected position first.
    pub(super) fn get(&self, name: &Name<'_>, expected: usize) -> Option<&Attribute<'a>> {
        match self.list.get(expected) {
            Some((here, attribute)) if here == name => Some(attribute),
            _ => {
                let (_, attribute) = &self.list[*self.positions().get(name)?];
                Some(attribute)
            }
        }
    }

    fn positions(&self) -> &HashMap<Name<'a>, usize> {
        self.positions.get_or_init(|| {
            let names = self.list.iter().map(|(name, _)| name.clone());
            names.zip(0..).collect()
        })
    }
}
