//! Resolves the domain paths that a hook may change.

use domain_xml::PathPattern;

use super::{AllowList, ResolveError, Resolver};
use crate::module_description::Wishes;
use crate::policy::dangerous_patterns::kinds_named;
use crate::policy::domain_grant::{Grant, Layer};
use crate::policy::pattern_subset::is_superset;
use crate::policy::yaml_values::{Dangerous, Pattern, WithPosition};

/// The origin of the wishes, in the terms of the SDKs: a module declares its wishes in the function `describe`.
const WISHES_ORIGIN: &str = "the paths that the module's `describe` declares";

impl Resolver<'_> {
    pub(super) fn grant(&self) -> Result<Grant, ResolveError> {
        let owner = self.yaml.and_then(|yaml| {
            let paths = yaml.content.allow.paths.as_ref()?;
            Some(layer(
                paths.get(),
                format!("allow.paths of {}", yaml.at(paths.position())),
            ))
        });
        let dangerous = self
            .required_operator_list("allow.dangerous", |allow| allow.dangerous.as_ref())
            .layer();
        let operator = self
            .operator_list("allow.paths", |allow| allow.paths.as_ref())
            .map(|list| list.layer().or(&dangerous));
        let wishes = self.identity.description.wishes.as_ref();
        for wish in wishes.iter().flat_map(|wishes| &wishes.paths) {
            check_wish(wish, owner.iter().chain(&operator), &dangerous)?;
        }
        let declared = match wishes {
            Some(wishes) => Some(wishes_layer(wishes)),
            None if owner.is_some() => None,
            None => Some(Layer {
                patterns: Vec::new(),
                granted_dangers: Vec::new(),
                origin: format!(
                    "{WISHES_ORIGIN} (it declares none), or allow.paths of {},",
                    self.hook_yaml_place()
                ),
            }),
        };
        // The wildcard matches every node except the dangerous set, whose granted part is already in the layer.
        let mut everything_permitted = dangerous;
        everything_permitted
            .patterns
            .extend(PathPattern::parse("/domain/**"));
        // The operator's layers come first: a module's patterns, which can be expensive to match, are only matched
        // against changes that the operator permits.
        let layers = operator.into_iter().chain([everything_permitted]);
        Ok(Grant::new(layers.chain(owner).chain(declared).collect()))
    }
}

impl AllowList<'_, WithPosition<Pattern>> {
    fn layer(self) -> Layer {
        Layer {
            patterns: self.values.iter().map(|p| p.get().0.clone()).collect(),
            granted_dangers: Vec::new(),
            origin: self.origin,
        }
    }
}

impl AllowList<'_, WithPosition<Dangerous>> {
    fn layer(self) -> Layer {
        let mut layer = Layer {
            patterns: Vec::new(),
            granted_dangers: Vec::new(),
            origin: self.origin,
        };
        for value in self.values {
            match value.get() {
                Dangerous::Path(pattern) => layer.patterns.push(pattern.clone()),
                Dangerous::Kind(kind) => layer.granted_dangers.push(*kind),
            }
        }
        layer
    }
}

fn layer(patterns: &[WithPosition<Pattern>], origin: String) -> Layer {
    Layer {
        patterns: patterns.iter().map(|p| p.get().0.clone()).collect(),
        granted_dangers: Vec::new(),
        origin,
    }
}

fn wishes_layer(wishes: &Wishes) -> Layer {
    Layer {
        patterns: wishes.paths.clone(),
        granted_dangers: Vec::new(),
        origin: WISHES_ORIGIN.to_owned(),
    }
}

/// Checks that every layer allows at least a part of a wish. Layers may narrow a wish. A wish of which nothing is
/// left is refused now, and not when the VM boots.
fn check_wish<'a>(
    wish: &PathPattern,
    layers: impl Iterator<Item = &'a Layer>,
    dangerous: &'a Layer,
) -> Result<(), ResolveError> {
    let kinds = kinds_named(wish, false);
    let overlaps = |layer: &Layer| {
        let mut patterns = layer.patterns.iter();
        patterns.any(|pattern| is_superset(pattern, wish) || is_superset(wish, pattern))
            || (!kinds.is_empty()
                && kinds
                    .iter()
                    .all(|kind| layer.granted_dangers.contains(kind)))
    };
    let required = (!kinds.is_empty()).then_some(dangerous);
    match layers.chain(required).find(|layer| !overlaps(layer)) {
        None => Ok(()),
        Some(layer) => Err(ResolveError::NotGranted {
            what: "path",
            wish: wish.as_str().to_owned(),
            origin: layer.origin.clone(),
        }),
    }
}
