//! Sends the `HookApplied` events of the hooks of a boot.

use crate::manager::hook_applied_event_messages;
use crate::manager::vm_context::VmContext;

/// The reason of the events.
const HOOK_APPLIED_REASON: &str = "HookApplied";

/// Logs the hooks' calls, and sends one Kubernetes event per hook of the boot that has just succeeded, unless the
/// operator's policy turns the events off.
pub(super) fn report_applied(vm: &VmContext) {
    vm.hooks.log_calls("started");
    let applied = std::mem::take(&mut vm.driver_state().applied_hooks);
    if vm.hooks.publishes_applied_events() {
        for message in hook_applied_event_messages::messages(&applied) {
            vm.notifier.normal_event(HOOK_APPLIED_REASON, &message);
        }
    }
}
