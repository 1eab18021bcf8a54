//! Kubernetes events about failing hooks.

use hook_host::HookError;

use crate::manager::vm_context::VmContext;
use crate::notify::Warning;

/// Sends a Kubernetes event about a hook, unless the same was sent before.
pub(super) fn warn_once(vm: &VmContext, error: &HookError) {
    let warning = Warning {
        reason: error.event_reason(),
        message: error.to_string(),
    };
    let cause = format!("{} {}", error.kind(), warning.message);
    if vm.driver_state().reported_hook_failures.insert(cause) {
        vm.notifier.warning(&warning);
    }
}
