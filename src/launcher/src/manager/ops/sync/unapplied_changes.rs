//! Reports of what a sync does not change in the running VM, or cannot change now: each as a Kubernetes event, once
//! while it lasts.

use std::time::Duration;

use domain::reconcile::RunningSettings;
use kubevirt_api::vmi::Vmi;
use tokio::time::Instant;

use crate::manager::reported_conditions::{Condition, Subject};
use crate::manager::vm_context::VmContext;
use crate::notify::Warning;

/// Reports the settings in which `vmi` differs from the running VM. As with KubeVirt's launcher, they are not applied.
pub(super) fn report(vm: &VmContext, vmi: &Vmi) {
    let requested = RunningSettings::of(vmi);
    let unapplied = {
        let mut state = vm.driver_state();
        let running = state.settings.get_or_insert_with(|| requested.clone());
        running.unapplied(&requested)
    };
    let unapplied = unapplied.into_iter().map(|setting| Condition {
        key: setting.clone(),
        text: setting,
        patience: Duration::ZERO,
    });
    let new = observe(vm, Subject::UnappliedSettings, unapplied);
    if !new.is_empty() {
        let new = new.join(", ");
        let message = format!(
            "The running VM keeps its settings until it is migrated or restarted; the VMI asks for {new}"
        );
        warn(vm, "ChangeNotApplied", message);
    }
}

/// Reports volumes that are not attached and media that are not inserted, although the VMI asks for them.
pub(super) fn report_waiting_volumes(vm: &VmContext, waiting: Vec<Condition>) {
    for message in observe(vm, Subject::WaitingVolumes, waiting) {
        warn(vm, "ChangeNotApplied", message);
    }
}

/// Reports changes of devices that failed.
pub(in crate::manager::ops) fn report_failed_changes(
    vm: &VmContext,
    subject: Subject,
    failed: Vec<Condition>,
) {
    for message in observe(vm, subject, failed) {
        warn(vm, "DeviceChangeFailed", message);
    }
}

fn observe(
    vm: &VmContext,
    subject: Subject,
    current: impl IntoIterator<Item = Condition>,
) -> Vec<String> {
    let mut state = vm.driver_state();
    state
        .reported_conditions
        .observe(subject, Instant::now(), current)
}

fn warn(vm: &VmContext, reason: &'static str, message: String) {
    let warning = Warning { reason, message };
    tracing::warn!("{}", warning.message);
    vm.notifier.warning(&warning);
}
