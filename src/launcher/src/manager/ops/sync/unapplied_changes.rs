//! Changes of the VMI that a running VM does not follow, as with KubeVirt's launcher: they are logged and sent as an
//! event, each once.

use domain::reconcile::RunningSettings;
use kubevirt_api::vmi::Vmi;

use crate::manager::vm_context::VmContext;
use crate::notify::Warning;

/// Reports the settings that `vmi` has otherwise than the VMI of the first sync.
pub(super) fn report(vm: &VmContext, vmi: &Vmi) {
    let now = RunningSettings::of(vmi);
    let new: Vec<_> = {
        let mut state = vm.driver_state();
        let runs = state.settings.get_or_insert_with(|| now.clone());
        let unapplied = runs.unapplied(&now).into_iter();
        unapplied
            .filter(|one| state.reported_settings.insert(one.clone()))
            .collect()
    };
    if new.is_empty() {
        return;
    }
    let warning = Warning {
        reason: "ChangeNotApplied",
        message: format!(
            "The running VM keeps its settings until it is migrated or restarted; the VMI asks for {}",
            new.join(", ")
        ),
    };
    tracing::warn!("{}", warning.message);
    vm.notifier.warning(&warning);
}
