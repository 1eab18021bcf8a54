//! Names the grants that a hook gets only from the operator's policy.

use hook_host::Description;

use super::check_finding::{CheckVerdict, Finding};
use crate::verbs::inspect::MinimalPolicy;

/// The finding, if the operator has to grant something: without the grant, the hook is refused in the cluster.
pub(super) fn finding(description: &Description) -> Option<Finding> {
    let policy = MinimalPolicy::for_module(description);
    let needed = policy.only_by_operator();
    (!needed.is_empty()).then(|| {
        let message = format!(
            "the operator has to grant {}: `virt-hook inspect MODULE --policy-only` prints the policy",
            needed.join(", ")
        );
        Finding::new("operator", CheckVerdict::Passed, message)
    })
}
