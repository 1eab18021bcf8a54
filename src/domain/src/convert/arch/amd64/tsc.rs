//! The timer of the time stamp counter (TSC).

use kubevirt_api::vmi::Vmi;

use crate::libvirt_spec::Timer;

pub(crate) fn timer(vmi: &Vmi) -> Option<Timer> {
    frequency(vmi).map(|frequency| Timer {
        name: "tsc".into(),
        frequency: frequency.to_string(),
        ..Timer::default()
    })
}

/// The TSC frequency, if the guest relies on it: with an invariant TSC or Hyper-V's re-enlightenment.
fn frequency(vmi: &Vmi) -> Option<i64> {
    let frequency = vmi.status.topology_hints.as_ref()?.tsc_frequency?;
    (frequency > 0 && (has_invariant_tsc(vmi) || has_reenlightenment(vmi))).then_some(frequency)
}

fn has_invariant_tsc(vmi: &Vmi) -> bool {
    vmi.spec.domain.cpu.as_ref().is_some_and(|cpu| {
        cpu.features.iter().any(|feature| {
            feature.name == "invtsc" && matches!(feature.policy.as_str(), "require" | "force")
        })
    })
}

fn has_reenlightenment(vmi: &Vmi) -> bool {
    let hyperv = vmi
        .spec
        .domain
        .features
        .as_ref()
        .and_then(|features| features.hyperv.as_ref());
    hyperv
        .and_then(|hyperv| hyperv.reenlightenment.as_ref())
        .is_some_and(|feature| feature.enabled == Some(true))
}
