use hook_host::HookError;

use crate::manager::vm::Vm;
use crate::notify::Warning;

/// Sends a Kubernetes event about a hook, unless the same was sent before.
pub(super) fn warn_once(vm: &Vm, error: &HookError) {
    let warning = Warning {
        reason: error.event_reason(),
        message: error.to_string(),
    };
    let cause = format!("{} {}", error.kind(), warning.message);
    if vm.memory().told.insert(cause) {
        vm.notifier.warning(&warning);
    }
}
