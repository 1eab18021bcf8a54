//! The clock and its timers.

use super::context::yes_no;
use super::{Context, ConvertError};
use crate::spec::{Clock, DomainSpec, Timer};
use crate::vmi;

pub(super) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    spec.clock = context.vmi.spec.domain.clock.as_ref().map(clock);
    if let Some(frequency) = tsc_frequency(context) {
        let timer = Timer {
            name: "tsc".into(),
            frequency: frequency.to_string(),
            ..Timer::default()
        };
        spec.clock.get_or_insert_default().timer.push(timer);
    }
    Ok(())
}

fn clock(source: &vmi::Clock) -> Clock {
    let mut clock = Clock {
        timer: source.timer.as_ref().map(timers).unwrap_or_default(),
        ..Clock::default()
    };
    if let Some(utc) = &source.utc {
        clock.offset = "utc".into();
        clock.adjustment = utc
            .offset_seconds
            .map_or_else(|| "reset".into(), |seconds| seconds.to_string());
    } else if let Some(timezone) = &source.timezone {
        clock.offset = "timezone".into();
        clock.timezone.clone_from(timezone);
    }
    clock
}

fn timers(timers: &vmi::Timers) -> Vec<Timer> {
    [
        ("rtc", &timers.rtc),
        ("pit", &timers.pit),
        ("kvmclock", &timers.kvm),
        ("hpet", &timers.hpet),
        ("hypervclock", &timers.hyperv),
    ]
    .into_iter()
    .filter_map(|(name, timer)| timer.as_ref().map(|timer| named(name, timer)))
    .collect()
}

/// Only what the kind of timer knows.
fn named(name: &str, timer: &vmi::Timer) -> Timer {
    let only = |kinds: &[&str], value: &str| match kinds.contains(&name) {
        true => value.to_owned(),
        false => String::new(),
    };
    Timer {
        name: name.into(),
        tick_policy: only(&["rtc", "pit", "hpet"], &timer.tick_policy),
        present: yes_no(timer.is_present()),
        track: only(&["rtc"], &timer.track),
        ..Timer::default()
    }
}

/// The node's TSC frequency when the guest relies on it: an invariant TSC, or Hyper-V's re-enlightenment.
fn tsc_frequency(context: &Context<'_>) -> Option<i64> {
    let frequency = context.vmi.status.topology_hints.as_ref()?.tsc_frequency?;
    (frequency > 0 && (has_invariant_tsc(context) || is_reenlightened(context)))
        .then_some(frequency)
}

fn has_invariant_tsc(context: &Context<'_>) -> bool {
    context.vmi.spec.domain.cpu.as_ref().is_some_and(|cpu| {
        cpu.features.iter().any(|feature| {
            feature.name == "invtsc" && matches!(feature.policy.as_str(), "require" | "force")
        })
    })
}

fn is_reenlightened(context: &Context<'_>) -> bool {
    let hyperv = context
        .vmi
        .spec
        .domain
        .features
        .as_ref()
        .and_then(|features| features.hyperv.as_ref());
    hyperv
        .and_then(|hyperv| hyperv.reenlightenment.as_ref())
        .is_some_and(|feature| feature.enabled == Some(true))
}
