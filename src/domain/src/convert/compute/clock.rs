//! The clock and its timers.

use kubevirt_api::vmi;

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{Clock, DomainSpec, Timer, yes_no};

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    spec.clock = context.vmi.spec.domain.clock.as_ref().map(clock);
    let timers = context.architecture.extra_timers(context.vmi);
    if !timers.is_empty() {
        spec.clock.get_or_insert_default().timer.extend(timers);
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
    .filter_map(|(name, timer)| timer.as_ref().map(|timer| convert_timer(name, timer)))
    .collect()
}

/// The timer with only those attributes that this kind of timer has.
fn convert_timer(name: &str, timer: &vmi::Timer) -> Timer {
    let if_supported = |kinds: &[&str], value: &str| match kinds.contains(&name) {
        true => value.to_owned(),
        false => String::new(),
    };
    Timer {
        name: name.into(),
        tick_policy: if_supported(&["rtc", "pit", "hpet"], &timer.tick_policy),
        present: yes_no(timer.is_present()),
        track: if_supported(&["rtc"], &timer.track),
        ..Timer::default()
    }
}
