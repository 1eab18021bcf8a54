//! The remedy for a case that ends because the operator's policy lacks something.

use std::path::Path;

use hook_host::policy::UnknownPath;

use super::case_files::POLICY;
use crate::hook_module::HookModule;
use crate::shell_quoted_path::shell_quoted;

/// A part of the host's error about a wish that only the operator's policy can grant, if the policy has no list with
/// it.
const LACKS_LIST: &str = " of the operator's policy (";

/// The cases, their policy and the modules under test.
pub(super) struct PolicyRemedy<'a> {
    pub(super) cases: &'a Path,
    /// The policy of the option `--policy`.
    pub(super) policy: Option<&'a Path>,
    pub(super) modules: &'a [HookModule],
}

impl PolicyRemedy<'_> {
    /// The remedy for an error about a list that the operator's policy lacks. A misspelt path is not mended by a
    /// policy.
    pub(super) fn for_error(&self, error: &str) -> Option<String> {
        if !error.contains(LACKS_LIST) || error.contains(UnknownPath::PREFIX) {
            return None;
        }
        let inspect = format!("virt-hook inspect {} --policy-only", self.module());
        let policy = self.policy.map(Path::to_owned);
        let policy = policy.unwrap_or_else(|| self.cases.join(POLICY));
        let exists = policy.symlink_metadata().is_ok();
        let name = shell_quoted(&policy);
        Some(
            match exists || error.contains(&format!("{LACKS_LIST}{POLICY}")) {
                true => format!("add to its policy what `{inspect}` prints"),
                false => format!("`{inspect} > {name}` writes the one that it needs"),
            },
        )
    }

    fn module(&self) -> String {
        match self.modules {
            [hook] => shell_quoted(&hook.module),
            _ => "MODULE".to_owned(),
        }
    }
}
