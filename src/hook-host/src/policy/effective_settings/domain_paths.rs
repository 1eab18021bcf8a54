//! Resolves the domain paths that a hook may change.

use super::{AllowList, ResolveError, Resolver};
use crate::ConditionedPath;
use crate::module_description::Wishes;
use crate::policy::dangerous_patterns::kinds_named;
use crate::policy::domain_grant::{Grant, Layer};
use crate::policy::pattern_subset::is_superset;
use crate::policy::yaml_values::{Dangerous, WithPosition};

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
            None => Some(Layer::new(
                Vec::new(),
                format!(
                    "{WISHES_ORIGIN} (it declares none), or allow.paths of {},",
                    self.hook_yaml_place()
                ),
            )),
        };
        // The wildcard matches every node except the dangerous set, whose granted part is already in the layer.
        let mut everything_permitted = dangerous;
        everything_permitted
            .paths
            .extend(ConditionedPath::parse("/domain/**"));
        // The operator's layers come first: a module's patterns, which can be expensive to match, are only matched
        // against changes that the operator permits.
        let layers = operator.into_iter().chain([everything_permitted]);
        Ok(Grant::new(layers.chain(owner).chain(declared).collect()))
    }
}

impl AllowList<'_, WithPosition<ConditionedPath>> {
    fn layer(self) -> Layer {
        let paths = self.values.iter().map(|path| path.get().clone());
        Layer::new(paths.collect(), self.origin)
    }
}

impl AllowList<'_, WithPosition<Dangerous>> {
    fn layer(self) -> Layer {
        let mut layer = Layer::new(Vec::new(), self.origin);
        for value in self.values {
            match value.get() {
                Dangerous::Path(path) => layer.paths.push(path.as_ref().clone()),
                Dangerous::Kind(kind) => layer.granted_dangers.push(*kind),
            }
        }
        layer
    }
}

fn layer(paths: &[WithPosition<ConditionedPath>], origin: String) -> Layer {
    let paths = paths.iter().map(|path| path.get().clone());
    Layer::new(paths.collect(), origin)
}

fn wishes_layer(wishes: &Wishes) -> Layer {
    Layer::new(wishes.paths_with_attributes(), WISHES_ORIGIN)
}

/// Checks that every layer allows at least a part of a wish. Layers may narrow a wish. A wish of which nothing is
/// left is refused now, and not when the VM boots.
fn check_wish<'a>(
    wish: &ConditionedPath,
    layers: impl Iterator<Item = &'a Layer>,
    dangerous: &'a Layer,
) -> Result<(), ResolveError> {
    let kinds = kinds_named(&wish.pattern, false);
    let overlaps = |layer: &Layer| {
        let mut paths = layer.paths.iter();
        paths.any(|path| overlap(path, wish))
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
            wish: wish.to_string(),
            origin: layer.origin.clone(),
        }),
    }
}

/// Whether some change may be permitted by both. Conditions that exclude each other leave nothing.
fn overlap(one: &ConditionedPath, other: &ConditionedPath) -> bool {
    let are_apart = match (&one.condition, &other.condition) {
        (Some(condition), Some(other)) => condition.excludes(other),
        _ => false,
    };
    let (one, other) = (&one.pattern, &other.pattern);
    !are_apart && (is_superset(one, other) || is_superset(other, one))
}
