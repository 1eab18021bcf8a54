//! What the hook gets only if an operator names it.

use hook_host::Description;

use super::check_finding::{CheckVerdict, Finding};
use crate::inspect::MinimalPolicy;

/// Says what the operator has to grant, if there is anything: without it, the hook is refused in the cluster.
pub(super) fn finding(description: &Description) -> Option<Finding> {
    let policy = MinimalPolicy::of(description);
    let needed = policy.only_by_operator();
    (!needed.is_empty()).then(|| {
        let message = format!(
            "the operator has to grant {}: `virt-hook inspect MODULE --policy-only` prints the policy",
            needed.join(", ")
        );
        Finding::new("operator", CheckVerdict::Passed, message)
    })
}
