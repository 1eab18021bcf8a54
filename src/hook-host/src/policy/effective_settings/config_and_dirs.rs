//! Resolves the configuration and the directories of a hook.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{AllowList, ResolveError, Resolver, at};
use crate::policy::yaml_values::{Directory, Located};

impl Resolver<'_> {
    pub(super) fn config(&self) -> Result<BTreeMap<String, String>, ResolveError> {
        let Some(yaml) = self.yaml else {
            return Ok(BTreeMap::new());
        };
        let cap = self.operator_list("allow.config", |allow| allow.config.as_ref());
        let mut config = BTreeMap::new();
        for (key, value) in &yaml.content.config {
            if let Some(wishes) = &self.identity.description.wishes
                && !wishes.config.contains(key)
            {
                let known = match &wishes.config[..] {
                    [] => "and no other".to_owned(),
                    known => format!("only [{}]", known.join(", ")),
                };
                let reason =
                    format!("the module does not read the configuration key {key:?}, {known}");
                return Err(yaml.wrong(value.position(), reason).into());
            }
            if let Some(cap) = &cap
                && !cap.values.contains(&key)
            {
                return Err(cap.refuses("configuration key", key));
            }
            config.insert(key.clone(), value.get().clone());
        }
        Ok(config)
    }

    /// Directories belong to the container, so the operator must allow them; `hook.yaml` narrows.
    pub(super) fn dirs(&self) -> Result<Vec<PathBuf>, ResolveError> {
        let Some(wishes) = &self.identity.description.wishes else {
            return Ok(Vec::new());
        };
        let owner = self.yaml.and_then(|yaml| {
            let dirs = yaml.content.allow.dirs.as_ref()?;
            Some(AllowList {
                values: dirs.get().iter().collect(),
                origin: format!("allow.dirs of {}", at(yaml, dirs.position())),
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

    /// The directories that the operator allows. `dirs` compares paths as text, and symbolic links in a directory may lead
    /// elsewhere: a directory is checked against these roots when it is opened.
    pub(super) fn dir_roots(&self) -> Vec<PathBuf> {
        let operator = self.required_operator_list("allow.dirs", |allow| allow.dirs.as_ref());
        paths(operator).values.into_iter().cloned().collect()
    }
}

fn paths<'a>(cap: AllowList<'a, Located<Directory>>) -> AllowList<'a, PathBuf> {
    AllowList {
        values: cap.values.into_iter().map(|dir| &dir.get().0).collect(),
        origin: cap.origin,
    }
}

/// The parts of a directory that all layers allow.
fn narrow(wish: &Path, layers: &[AllowList<'_, PathBuf>]) -> Result<Vec<PathBuf>, ResolveError> {
    let mut left = vec![wish.to_path_buf()];
    for layer in layers {
        let mut next = Vec::new();
        for dir in &left {
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
        left = next;
    }
    Ok(left)
}
