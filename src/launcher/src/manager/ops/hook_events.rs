//! Kubernetes events about hooks: failures, and the hooks of a boot.

use hook_host::HookError;

use crate::manager::applied_hooks;
use crate::manager::vm_context::VmContext;
use crate::notify::Warning;

/// The reason of the event about a hook of a boot.
const APPLIED: &str = "HookApplied";

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

/// Logs the hooks' calls, and sends a Kubernetes event per hook of the boot that has just succeeded, unless the operator's
/// policy omits them.
pub(super) fn report_applied(vm: &VmContext) {
    vm.hooks.log_calls("started");
    let applied = std::mem::take(&mut vm.driver_state().applied_hooks);
    if vm.hooks.publishes_applied_events() {
        for message in applied_hooks::messages(&applied) {
            vm.notifier.normal_event(APPLIED, &message);
        }
    }
}
