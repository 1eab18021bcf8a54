//! Resolves which domain paths a hook may change.

use domain_xml::PathPattern;

use super::{AllowList, ResolveError, Resolver, at};
use crate::description::Wishes;
use crate::policy::grant::{Grant, Layer};
use crate::policy::pattern_subset::{is_superset, names_dangerous};
use crate::policy::yaml_values::{Located, Pattern};

impl Resolver<'_> {
    pub(super) fn grant(&self) -> Result<Grant, ResolveError> {
        let mut layers = Vec::new();
        let owner = self.yaml.and_then(|yaml| {
            let paths = yaml.content.allow.paths.as_ref()?;
            Some(layer(
                paths.get(),
                format!("allow.paths of {}", at(yaml, paths.position())),
            ))
        });
        let dangerous = self
            .required_operator_list("allow.dangerous", |allow| allow.dangerous.as_ref())
            .layer();
        let operator = self
            .operator_list("allow.paths", |allow| allow.paths.as_ref())
            .map(|cap| cap.layer().and(&dangerous));
        let wishes = self.identity.description.wishes.as_ref();
        let has_owner = owner.is_some();
        layers.extend(owner);
        layers.extend(operator);
        match wishes {
            Some(wishes) => {
                for wish in &wishes.paths {
                    check_wish(wish, &layers, &dangerous)?;
                }
                layers.insert(0, wishes_layer(wishes));
            }
            None if has_owner => {}
            None => layers.insert(
                0,
                Layer {
                    patterns: Vec::new(),
                    origin: format!(
                        "wishes.paths in its description, or allow.paths of {},",
                        self.hook_yaml()
                    ),
                },
            ),
        }
        // The wildcard matches everything except the dangerous set.
        let mut short_of_danger = dangerous;
        short_of_danger
            .patterns
            .extend(PathPattern::parse("/domain/**"));
        layers.push(short_of_danger);
        Ok(Grant::new(layers))
    }
}

impl AllowList<'_, Located<Pattern>> {
    fn layer(self) -> Layer {
        Layer {
            patterns: self.values.iter().map(|p| p.get().0.clone()).collect(),
            origin: self.origin,
        }
    }
}

fn layer(patterns: &[Located<Pattern>], origin: String) -> Layer {
    Layer {
        patterns: patterns.iter().map(|p| p.get().0.clone()).collect(),
        origin,
    }
}

fn wishes_layer(wishes: &Wishes) -> Layer {
    Layer {
        patterns: wishes.paths.clone(),
        origin: "wishes.paths in the module's description".to_owned(),
    }
}

/// Checks that every layer allows at least a part of a wish. Layers may narrow a wish; if nothing is
/// left of it, the mistake shows now rather than at boot.
fn check_wish(wish: &PathPattern, layers: &[Layer], dangerous: &Layer) -> Result<(), ResolveError> {
    let overlaps = |layer: &Layer| {
        let mut patterns = layer.patterns.iter();
        patterns.any(|pattern| is_superset(pattern, wish) || is_superset(wish, pattern))
    };
    let needed = names_dangerous(wish).then_some(dangerous);
    match layers.iter().chain(needed).find(|layer| !overlaps(layer)) {
        None => Ok(()),
        Some(layer) => Err(ResolveError::NotGranted {
            what: "path",
            wish: wish.as_str().to_owned(),
            origin: layer.origin.clone(),
        }),
    }
}
