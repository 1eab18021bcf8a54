//! What it may change of the domain.

use domain_xml::PathPattern;

use super::{Cap, SettleError, Terms, at};
use crate::policy::cover::{covers, names_dangerous};
use crate::policy::grant::{Grant, Layer};
use crate::policy::values::{At, Pattern};
use crate::wasm::Wishes;

impl Terms<'_> {
    pub(super) fn grant(&self) -> Result<Grant, SettleError> {
        let mut layers = Vec::new();
        let owner = self.yaml.and_then(|yaml| {
            let paths = yaml.content.allow.paths.as_ref()?;
            Some(layer(
                paths.get(),
                format!("allow.paths of {}", at(yaml, paths.place())),
            ))
        });
        let dangerous = self
            .operators_word("allow.dangerous", |allow| allow.dangerous.as_ref())
            .layer();
        let operator = self
            .operators("allow.paths", |allow| allow.paths.as_ref())
            .map(|cap| cap.layer().and(&dangerous));
        let wishes = self.subject.description.wishes.as_ref();
        let has_owner = owner.is_some();
        layers.extend(owner);
        layers.extend(operator);
        match wishes {
            Some(wishes) => {
                for wish in &wishes.paths {
                    granted(wish, &layers, &dangerous)?;
                }
                layers.insert(0, wished(wishes));
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
        // Everything short of the dangerous set, which no wildcard matches.
        let mut short_of_danger = dangerous;
        short_of_danger
            .patterns
            .extend(PathPattern::parse("/domain/**"));
        layers.push(short_of_danger);
        Ok(Grant::new(layers))
    }
}

impl Cap<'_, At<Pattern>> {
    fn layer(self) -> Layer {
        Layer {
            patterns: self.values.iter().map(|p| p.get().0.clone()).collect(),
            origin: self.origin,
        }
    }
}

fn layer(patterns: &[At<Pattern>], origin: String) -> Layer {
    Layer {
        patterns: patterns.iter().map(|p| p.get().0.clone()).collect(),
        origin,
    }
}

fn wished(wishes: &Wishes) -> Layer {
    Layer {
        patterns: wishes.paths.clone(),
        origin: "wishes.paths in the module's description".to_owned(),
    }
}

/// A wish is granted when something of it is allowed everywhere: to narrow it is everyone's right,
/// to leave nothing of it is a mistake that shows now rather than at boot.
fn granted(wish: &PathPattern, layers: &[Layer], dangerous: &Layer) -> Result<(), SettleError> {
    let overlaps = |layer: &Layer| {
        let mut patterns = layer.patterns.iter();
        patterns.any(|pattern| covers(pattern, wish) || covers(wish, pattern))
    };
    let needed = names_dangerous(wish).then_some(dangerous);
    match layers.iter().chain(needed).find(|layer| !overlaps(layer)) {
        None => Ok(()),
        Some(layer) => Err(SettleError::NotGranted {
            what: "path",
            wish: wish.as_str().to_owned(),
            origin: layer.origin.clone(),
        }),
    }
}
