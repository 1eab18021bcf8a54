//! What it is told, and what it may read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Cap, SettleError, Terms, at};
use crate::policy::values::{At, Directory};

impl Terms<'_> {
    pub(super) fn config(&self) -> Result<BTreeMap<String, String>, SettleError> {
        let Some(yaml) = self.yaml else {
            return Ok(BTreeMap::new());
        };
        let cap = self.operators("allow.config", |allow| allow.config.as_ref());
        let mut config = BTreeMap::new();
        for (key, value) in &yaml.content.config {
            if let Some(wishes) = &self.subject.description.wishes
                && !wishes.config.contains(key)
            {
                let reason = format!(
                    "the module does not read the configuration key {key:?}, only [{}]",
                    wishes.config.join(", ")
                );
                return Err(yaml.wrong(value.place(), reason).into());
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

    /// Directories are the container's, so they need the operator's word; `hook.yaml` narrows.
    pub(super) fn dirs(&self) -> Result<Vec<PathBuf>, SettleError> {
        let Some(wishes) = &self.subject.description.wishes else {
            return Ok(Vec::new());
        };
        let owner = self.yaml.and_then(|yaml| {
            let dirs = yaml.content.allow.dirs.as_ref()?;
            Some(Cap {
                values: dirs.get().iter().collect(),
                origin: format!("allow.dirs of {}", at(yaml, dirs.place())),
            })
        });
        let operator = self.operators_word("allow.dirs", |allow| allow.dirs.as_ref());
        let layers: Vec<Cap<'_, PathBuf>> =
            owner.into_iter().chain([operator]).map(paths).collect();
        let granted: Result<Vec<_>, _> = wishes
            .dirs
            .iter()
            .map(|wish| narrowed(wish, &layers))
            .collect();
        Ok(granted?.concat())
    }
}

fn paths<'a>(cap: Cap<'a, At<Directory>>) -> Cap<'a, PathBuf> {
    Cap {
        values: cap.values.into_iter().map(|dir| &dir.get().0).collect(),
        origin: cap.origin,
    }
}

/// What of a directory is left by all that cap it.
fn narrowed(wish: &Path, layers: &[Cap<'_, PathBuf>]) -> Result<Vec<PathBuf>, SettleError> {
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
