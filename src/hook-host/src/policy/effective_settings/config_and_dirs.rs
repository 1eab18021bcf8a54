//! Resolves the configuration and the directories of a hook.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{AllowList, ResolveError, Resolver};
use crate::policy::operator_policy::Allow;
use crate::policy::yaml_values::{Directory, WithPosition};

impl<'a> Resolver<'a> {
    pub(super) fn config(&self) -> Result<BTreeMap<String, String>, ResolveError> {
        let Some(yaml) = self.yaml else {
            return Ok(BTreeMap::new());
        };
        let list = |allow: &'a Allow| allow.config.as_ref();
        // What a final hook enforces is for the operator to configure.
        let allowed = match self.final_rule {
            Some(_) => Some(self.required_operator_list("allow.config", list)),
            None => self.operator_list("allow.config", list),
        };
        let mut config = BTreeMap::new();
        for (key, value) in &yaml.content.config {
            if let Some(wishes) = &self.identity.description.wishes
                && !wishes.config.contains(key)
            {
                let declared = match &wishes.config[..] {
                    [] => "and no other".to_owned(),
                    keys => format!("only [{}]", keys.join(", ")),
                };
                let reason =
                    format!("the module does not read the configuration key {key:?}, {declared}");
                return Err(yaml.error_at(value.position(), reason).into());
            }
            if let Some(allowed) = &allowed
                && !allowed.values.contains(&key)
            {
                return Err(allowed.refuses("configuration key", key));
            }
            config.insert(key.clone(), value.get().clone());
        }
        Ok(config)
    }

    /// The granted directories. They belong to the launcher's container, so the operator must allow them; `hook.yaml`
    /// only narrows.
    pub(super) fn dirs(&self) -> Result<Vec<PathBuf>, ResolveError> {
        let Some(wishes) = &self.identity.description.wishes else {
            return Ok(Vec::new());
        };
        let owner = self.yaml.and_then(|yaml| {
            let dirs = yaml.content.allow.dirs.as_ref()?;
            Some(AllowList {
                values: dirs.get().iter().collect(),
                origin: format!("allow.dirs of {}", yaml.at(dirs.position())),
            })
        });
        let operator = self.required_operator_list("allow.dirs", |allow| allow.dirs.as_ref());
        let layers: Vec<AllowList<'_, PathBuf>> =
            owner.into_iter().chain([operator]).map(paths).collect();
        let granted: Result<Vec<_>, _> = wishes
            .dirs
            .iter()
            .map(|wish| narrow(wish, &layers))
            .collect();
        Ok(granted?.concat())
    }

    /// The directories that the operator allows. `dirs` compares the texts of paths, and a directory can contain
    /// symbolic links that lead out of it, so a directory is checked against these roots again when it is opened.
    pub(super) fn dir_roots(&self) -> Vec<PathBuf> {
        let operator = self.required_operator_list("allow.dirs", |allow| allow.dirs.as_ref());
        paths(operator).values.into_iter().cloned().collect()
    }
}

fn paths<'a>(list: AllowList<'a, WithPosition<Directory>>) -> AllowList<'a, PathBuf> {
    AllowList {
        values: list.values.into_iter().map(|dir| &dir.get().0).collect(),
        origin: list.origin,
    }
}

/// The directories within `wish` that all layers allow.
fn narrow(wish: &Path, layers: &[AllowList<'_, PathBuf>]) -> Result<Vec<PathBuf>, ResolveError> {
    let mut remaining = vec![wish.to_path_buf()];
    for layer in layers {
        let mut next = Vec::new();
        for dir in &remaining {
            for allowed in &layer.values {
                if dir.starts_with(allowed) {
                    next.push(dir.clone());
                } else if allowed.starts_with(dir) {
                    next.push((*allowed).clone());
                }
            }
        }
        if next.is_empty() {
            return Err(layer.refuses("directory", &wish.display().to_string()));
        }
        next.sort();
        next.dedup();
        remaining = next;
    }
    Ok(remaining)
}
