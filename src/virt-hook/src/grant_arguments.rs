//! The operator's policy of verbs that examine a module: the one of the command line, or one that grants what modules
//! declare.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use hook_host::policy::names_dangerous;
use hook_host::{ConditionedPath, Description, PodPattern};
use serde_json::json;

use crate::granted_dirs::{GrantedDirs, not_granted};
use crate::verb_failure::Failure;

/// What modules may do.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct GrantArgs {
    /// The operator's policy; without it, hooks are granted all their wishes except directories. Rules about namespaces
    /// apply by the namespace of the VMI
    #[arg(long, value_name = "FILE", conflicts_with = "grant_dir")]
    pub(crate) policy: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) dirs: GrantedDirs,
}

impl GrantArgs {
    /// The policy of the command line, or one in `work_dir` that grants everything that the modules declare, the dangerous
    /// set included: what a module does to a domain is only printed. Reading directories is more than that, so they are
    /// granted by the command line alone.
    pub(crate) fn policy_for(
        &self,
        modules: &[Description],
        work_dir: &Path,
    ) -> Result<PathBuf, Failure> {
        match &self.policy {
            Some(policy) => Ok(policy.clone()),
            None => self.write(modules, work_dir),
        }
    }

    fn write(&self, modules: &[Description], work_dir: &Path) -> Result<PathBuf, Failure> {
        for module in modules {
            let wishes = module.wishes.iter();
            for dir in wishes.flat_map(|wishes| &wishes.dirs) {
                if !self.dirs.covers(dir) {
                    let who = format!("the description of hook {:?}", module.name);
                    return Err(Failure::Refused(not_granted(&who, dir)));
                }
            }
        }
        let wishes = || modules.iter().filter_map(|module| module.wishes.as_ref());
        // Without `paths`, modules may do what they declare, short of the dangerous set.
        let dangerous = wishes().flat_map(|wishes| &wishes.paths);
        let attributes = wishes().flat_map(|wishes| &wishes.paths);
        let attributes = attributes.filter_map(ConditionedPath::own_attributes);
        let dangerous = dangerous.cloned().chain(attributes);
        let mut dangerous: Vec<ConditionedPath> = dangerous
            .filter(|path| names_dangerous(&path.pattern))
            .collect();
        dangerous.dedup();
        let pod: BTreeSet<&str> = wishes()
            .flat_map(|wishes| wishes.pod.iter().map(PodPattern::as_str))
            .collect();
        let declared = wishes().flat_map(|wishes| &wishes.dirs);
        let dirs = self.dirs.roots(declared.map(PathBuf::as_path));
        // A JSON document is also YAML.
        let policy = json!({"allow": {"dangerous": dangerous, "dirs": dirs, "pod": pod}});
        let path = work_dir.join("policy.yaml");
        fs::write(&path, policy.to_string())
            .with_context(|| path.display().to_string())
            .map_err(Failure::Internal)?;
        Ok(path)
    }
}
