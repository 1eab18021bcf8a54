//! The operator's policy that is used if the command line names none: it grants everything that modules declare.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hook_host::policy::names_dangerous;
use hook_host::{Description, PodPattern};
use serde_json::json;

/// Writes a policy that grants everything that the modules declare, the dangerous set included.
pub(crate) fn write(modules: &[Description], work_dir: &Path) -> Result<PathBuf> {
    let wishes = || modules.iter().filter_map(|module| module.wishes.as_ref());
    // Without `paths`, modules may do what they declare, short of the dangerous set.
    let dangerous = wishes().flat_map(|wishes| &wishes.paths);
    let dangerous = dangerous.filter(|path| names_dangerous(path));
    let dangerous: BTreeSet<&str> = dangerous.map(|path| path.as_str()).collect();
    let dirs: BTreeSet<&PathBuf> = wishes().flat_map(|wishes| &wishes.dirs).collect();
    let pod: BTreeSet<&str> = wishes()
        .flat_map(|wishes| wishes.pod.iter().map(PodPattern::as_str))
        .collect();
    // A JSON document is also YAML.
    let policy = json!({"allow": {"dangerous": dangerous, "dirs": dirs, "pod": pod}});
    let path = work_dir.join("policy.yaml");
    fs::write(&path, policy.to_string()).with_context(|| path.display().to_string())?;
    Ok(path)
}
