//! Reports changes of the VMI that cannot be applied to a running VM, as with KubeVirt's launcher. Each change is
//! logged and sent as a Kubernetes event once.

use domain::libvirt_spec::DomainSpec;
use domain::reconcile::{LiveDomain, RunningSettings, occupied_targets};
use kubevirt_api::vmi::Vmi;

use crate::manager::vm_context::VmContext;
use crate::notify::Warning;

/// Reports the settings in which `vmi` differs from the running VM.
pub(super) fn report(vm: &VmContext, vmi: &Vmi) {
    let requested = RunningSettings::of(vmi);
    let unapplied = {
        let mut state = vm.driver_state();
        let running = state.settings.get_or_insert_with(|| requested.clone());
        running.unapplied(&requested)
    };
    warn_once(vm, unapplied, |new| {
        format!(
            "The running VM keeps its settings until it is migrated or restarted; the VMI asks for {new}"
        )
    });
}

/// Reports the hotplugged volumes of `desired` whose target is occupied by a hook's disk.
pub(super) fn report_occupied_targets(vm: &VmContext, desired: &DomainSpec, live: &LiveDomain) {
    let occupied = occupied_targets(desired, live).into_iter();
    let texts = occupied.map(|(volume, target)| format!("{volume} ({target})"));
    warn_once(vm, texts.collect(), |new| {
        format!(
            "A disk added by a hook uses the target of volume {new}, so the volume is not attached; change the hook to use a \
             target far from those of volumes, such as vdz"
        )
    });
}

fn warn_once(vm: &VmContext, unapplied: Vec<String>, message: impl FnOnce(String) -> String) {
    let new: Vec<_> = {
        let mut state = vm.driver_state();
        let unapplied = unapplied.into_iter();
        unapplied
            .filter(|change| state.reported_settings.insert(change.clone()))
            .collect()
    };
    if new.is_empty() {
        return;
    }
    let warning = Warning {
        reason: "ChangeNotApplied",
        message: message(new.join(", ")),
    };
    tracing::warn!("{}", warning.message);
    vm.notifier.warning(&warning);
}
