//! What to do about a case that ends because the operator's policy lacks something.

use std::path::Path;

use hook_host::policy::UnknownPath;

use super::case_files::POLICY;
use crate::module_files::HookModule;
use crate::new::shell_quoted;

/// What the host's error contains when only the operator's policy can grant a wish, and has no list that does.
const LACKS_LIST: &str = " of the operator's policy (";

/// The cases, their policy and the modules under test.
pub(super) struct PolicyRemedy<'a> {
    pub(super) cases: &'a Path,
    /// The option `--policy`.
    pub(super) policy: Option<&'a Path>,
    pub(super) modules: &'a [HookModule],
}

impl PolicyRemedy<'_> {
    /// What to do about an error, if the operator's policy lacks a list. A misspelt path is not for the policy.
    pub(super) fn of(&self, error: &str) -> Option<String> {
        if !error.contains(LACKS_LIST) || error.contains(UnknownPath::PREFIX) {
            return None;
        }
        let inspect = format!("virt-hook inspect {} --policy-only", self.module());
        let policy = self.policy.map(Path::to_owned);
        let policy = policy.unwrap_or_else(|| self.cases.join(POLICY));
        let is_there = policy.symlink_metadata().is_ok();
        let name = shell_quoted(&policy);
        Some(
            match is_there || error.contains(&format!("{LACKS_LIST}{POLICY}")) {
                true => format!("add to its policy what `{inspect}` prints"),
                false => format!("`{inspect} > {name}` writes the one that it needs"),
            },
        )
    }

    fn module(&self) -> String {
        match self.modules {
            [one] => shell_quoted(&one.module),
            _ => "MODULE".to_owned(),
        }
    }
}
