//! Changes of the VMI that a running VM does not follow, as with KubeVirt's launcher: they are logged and sent as an
//! event, each once.

use domain::libvirt_spec::DomainSpec;
use domain::reconcile::{LiveDomain, RunningSettings, occupied_targets};
use kubevirt_api::vmi::Vmi;

use crate::manager::vm_context::VmContext;
use crate::notify::Warning;

/// Reports the settings that `vmi` has otherwise than the VMI of the first sync.
pub(super) fn report(vm: &VmContext, vmi: &Vmi) {
    let now = RunningSettings::of(vmi);
    let unapplied = {
        let mut state = vm.driver_state();
        let runs = state.settings.get_or_insert_with(|| now.clone());
        runs.unapplied(&now)
    };
    warn_once(vm, unapplied, |new| {
        format!(
            "The running VM keeps its settings until it is migrated or restarted; the VMI asks for {new}"
        )
    });
}

/// Reports the hotplugged volumes of `wanted` whose place in the guest a hook's disk has.
pub(super) fn report_occupied_targets(vm: &VmContext, wanted: &DomainSpec, live: &LiveDomain) {
    let occupied = occupied_targets(wanted, live).into_iter();
    let texts = occupied.map(|(volume, target)| format!("{volume} ({target})"));
    warn_once(vm, texts.collect(), |new| {
        format!(
            "A hook has added a disk in the place of a volume, which is not attached: {new}; let the hook take a target that is far from \
             those of volumes, such as vdz"
        )
    });
}

fn warn_once(vm: &VmContext, unapplied: Vec<String>, message: impl FnOnce(String) -> String) {
    let new: Vec<_> = {
        let mut state = vm.driver_state();
        let unapplied = unapplied.into_iter();
        unapplied
            .filter(|one| state.reported_settings.insert(one.clone()))
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
