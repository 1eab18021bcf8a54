//! Tests of the decision rules as tables: VMI and domain, the decision, and the next phase.

use std::time::Duration;

use super::decision_rules::{Decision, LauncherState, Phase, VmiFacts, decide, next_phase};
use super::notified_domain::{DomainGrace, NotifiedDomain};

use Decision::{AwaitShutdown, Delete, Ignore, Kill, Nothing, Sync};
use LauncherState::Responsive;
use Phase::{Failed, Running, Scheduled, Succeeded};

pub(super) const NOW: i64 = 1000;

pub(super) fn vmi(phase: Phase) -> VmiFacts {
    VmiFacts {
        uid: "u".into(),
        phase,
        deleting: false,
        grace_period: Some(30),
    }
}

pub(super) fn deleting(phase: Phase) -> VmiFacts {
    VmiFacts {
        deleting: true,
        ..vmi(phase)
    }
}

/// A domain with this `Status/Reason` and a grace period of 30 seconds.
pub(super) fn domain(state: &str) -> NotifiedDomain {
    let (status, reason) = state.split_once('/').unwrap_or((state, ""));
    NotifiedDomain {
        uid: "u".into(),
        status: status.into(),
        reason: reason.into(),
        acpi: true,
        grace: Some(DomainGrace {
            seconds: 30,
            begin: None,
            marked_for_shutdown: false,
        }),
        ..NotifiedDomain::default()
    }
}

pub(super) fn shutdown(seconds: u64) -> Decision {
    Decision::Shutdown {
        again_after: Duration::from_secs(seconds),
    }
}

/// The VMI, the domain, the decision, and the VMI's next phase.
type Row = (
    Option<VmiFacts>,
    Option<NotifiedDomain>,
    Decision,
    Option<Phase>,
);

/// Checks all rows before it fails, so that the message has every row that a wrong rule breaks.
pub(super) fn check(rows: &[Row]) {
    let mut mismatches = String::new();
    for (vmi, domain, decision, phase) in rows {
        let (vmi, domain) = (vmi.as_ref(), domain.as_ref());
        let decided = decide(vmi, domain, Responsive, NOW);
        let next = vmi.map(|vmi| next_phase(vmi, domain, Responsive));
        if decided != *decision || next != *phase {
            let row = format!("{vmi:?} {:?}", domain.map(NotifiedDomain::state));
            mismatches += &format!("{row}: {decided:?} {next:?}, not {decision:?} {phase:?}\n");
        }
    }
    assert!(mismatches.is_empty(), "\n{mismatches}");
}

#[test]
fn decisions_and_phases_of_a_start() {
    let row = |phase, state: &str, decision, next| {
        (Some(vmi(phase)), Some(domain(state)), decision, Some(next))
    };
    check(&[
        (Some(vmi(Scheduled)), None, Sync, Some(Scheduled)),
        // A domain that is defined and was never alive: virt-handler treats it as ended.
        row(Scheduled, "Shutoff/Unknown", Delete, Scheduled),
        row(Scheduled, "Paused/StartingUp", Ignore, Running),
        row(Scheduled, "Paused/User", Nothing, Running),
        row(Scheduled, "Running/Unknown", Nothing, Running),
        row(Running, "Running/Unknown", Sync, Running),
        row(Running, "Paused/User", Sync, Running),
        row(Running, "Paused/StartingUp", Ignore, Running),
        row(Running, "Unknown/", Ignore, Running),
    ]);
}

#[test]
fn decisions_and_phases_when_the_guest_powers_off() {
    let row = |phase, state: &str, decision, next| {
        (Some(vmi(phase)), Some(domain(state)), decision, Some(next))
    };
    check(&[
        row(Running, "Shutoff/Shutdown", Delete, Succeeded),
        row(Running, "Shutoff/Crashed", Delete, Failed),
        row(Running, "Crashed/Panicked", Delete, Failed),
        row(Running, "Shutoff/Destroyed", Delete, Failed),
        row(Running, "Shutoff/Unknown", Delete, Running),
        row(Running, "Shutoff/Migrated", Delete, Running),
        row(Running, "Paused/PostcopyFailed", Kill, Failed),
        row(Succeeded, "Shutoff/Shutdown", Delete, Succeeded),
        // The domain of a VMI in a final phase is deleted, even if it is alive.
        row(Failed, "Running/Unknown", Delete, Running),
        (Some(vmi(Succeeded)), None, Delete, Some(Succeeded)),
        // A running domain disappeared without a notification.
        (Some(vmi(Running)), None, Nothing, Some(Failed)),
    ]);
    let without_acpi = NotifiedDomain {
        acpi: false,
        ..domain("Shutoff/Destroyed")
    };
    let without_grace_period = VmiFacts {
        grace_period: Some(0),
        ..vmi(Running)
    };
    check(&[
        (
            Some(vmi(Running)),
            Some(without_acpi),
            Delete,
            Some(Succeeded),
        ),
        (
            Some(without_grace_period),
            Some(domain("Shutoff/Destroyed")),
            Delete,
            Some(Succeeded),
        ),
    ]);
}

#[test]
fn decisions_and_phases_when_the_user_deletes_the_vmi() {
    let row = |state: &str, decision, next| {
        (
            Some(deleting(Running)),
            Some(domain(state)),
            decision,
            Some(next),
        )
    };
    check(&[
        row("Running/Unknown", shutdown(5), Running),
        row("Paused/StartingUp", shutdown(5), Running),
        row("ShuttingDown/Unknown", AwaitShutdown, Running),
        row("Shutoff/Shutdown", Delete, Succeeded),
        (Some(deleting(Running)), None, Delete, Some(Failed)),
        (Some(deleting(Scheduled)), None, Delete, Some(Scheduled)),
        // The object is gone from the cluster.
        (None, Some(domain("Running/Unknown")), shutdown(5), None),
        (None, Some(domain("Shutoff/Shutdown")), Delete, None),
        (None, None, Delete, None),
    ]);
    let decide_with = |grace_period, grace: Option<DomainGrace>| {
        let vmi = VmiFacts {
            grace_period,
            ..deleting(Running)
        };
        let domain = NotifiedDomain {
            grace,
            ..domain("Running/Unknown")
        };
        decide(Some(&vmi), Some(&domain), Responsive, NOW)
    };
    let grace = |seconds, begin| {
        Some(DomainGrace {
            seconds,
            begin,
            marked_for_shutdown: false,
        })
    };
    assert_eq!(decide_with(Some(3), grace(30, None)), shutdown(3));
    assert_eq!(
        decide_with(Some(30), grace(30, Some(NOW - 10))),
        shutdown(5)
    );
    assert_eq!(
        decide_with(Some(30), grace(30, Some(NOW - 28))),
        shutdown(2)
    );
    assert_eq!(decide_with(Some(30), grace(30, Some(NOW - 30))), Kill);
    assert_eq!(decide_with(Some(0), grace(30, None)), Kill);
    assert_eq!(decide_with(Some(30), grace(0, None)), Kill);
    assert_eq!(decide_with(Some(30), None), Kill);
}

#[test]
fn decisions_and_phases_when_the_pod_is_deleted() {
    let marked_for_shutdown = |state: &str| NotifiedDomain {
        grace: Some(DomainGrace {
            seconds: 30,
            begin: None,
            marked_for_shutdown: true,
        }),
        ..domain(state)
    };
    check(&[
        (
            Some(vmi(Running)),
            Some(marked_for_shutdown("Running/Unknown")),
            shutdown(5),
            Some(Running),
        ),
        (
            Some(vmi(Running)),
            Some(marked_for_shutdown("Shutoff/Shutdown")),
            Delete,
            Some(Succeeded),
        ),
        // The deletion mark shuts down only a VM that has been alive.
        (
            Some(vmi(Scheduled)),
            Some(marked_for_shutdown("Running/Unknown")),
            Nothing,
            Some(Running),
        ),
    ]);
}
