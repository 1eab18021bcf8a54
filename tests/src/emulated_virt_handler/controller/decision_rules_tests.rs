//! Tests of the decision rules as tables: VMI and domain, the decision, and the next phase.

use std::time::Duration;

use super::decision_rules::{
    Decision, LauncherState, Phase, VmiFacts, decide, is_early_delete, next_phase,
};
use super::notified_domain::{DomainGrace, NotifiedDomain};

use Decision::{AwaitShutdown, CleanUpStale, Delete, Ignore, Kill, Nothing, Sync};
use LauncherState::{NotInitialized, Responsive, Unresponsive};
use Phase::{Failed, Running, Scheduled, Succeeded};

const NOW: i64 = 1000;

fn vmi(phase: Phase) -> VmiFacts {
    VmiFacts {
        uid: "u".into(),
        phase,
        deleting: false,
        grace_period: Some(30),
    }
}

fn deleting(phase: Phase) -> VmiFacts {
    VmiFacts {
        deleting: true,
        ..vmi(phase)
    }
}

/// A domain with this `Status/Reason` and a grace period of 30 seconds.
fn domain(state: &str) -> NotifiedDomain {
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

fn shutdown(seconds: u64) -> Decision {
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
fn check(rows: &[Row]) {
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

#[test]
fn a_domain_of_another_uid_is_stale() {
    let other = |uid: &str| NotifiedDomain {
        uid: uid.into(),
        ..domain("Running/Unknown")
    };
    let deleted_domain = NotifiedDomain {
        deleted: true,
        ..other("")
    };
    check(&[
        (
            Some(vmi(Running)),
            Some(other("")),
            CleanUpStale,
            Some(Running),
        ),
        (
            Some(vmi(Scheduled)),
            Some(other("older")),
            CleanUpStale,
            Some(Running),
        ),
        // A domain with a deletion timestamp counts as none, whatever its UID.
        (
            Some(vmi(Running)),
            Some(deleted_domain.clone()),
            Nothing,
            Some(Failed),
        ),
        (
            Some(vmi(Succeeded)),
            Some(deleted_domain),
            Delete,
            Some(Succeeded),
        ),
        (None, Some(other("older")), shutdown(5), None),
    ]);
}

#[test]
fn a_missing_socket_means_an_ended_launcher_only_after_it_existed() {
    for (launcher, phase) in [
        (NotInitialized, Scheduled),
        (Responsive, Scheduled),
        (Unresponsive, Failed),
    ] {
        assert_eq!(next_phase(&vmi(Scheduled), None, launcher), phase);
        let expected = if phase == Scheduled { Sync } else { Nothing };
        assert_eq!(decide(Some(&vmi(Scheduled)), None, launcher, NOW), expected);
    }
}

#[test]
fn a_migration_is_ignored_unless_the_vmi_is_deleted() {
    for state in ["Paused/Migration", "Paused/Postcopy", "Paused/StartingUp"] {
        let domain = domain(state);
        let decided = |vmi: &VmiFacts| decide(Some(vmi), Some(&domain), Responsive, NOW);
        assert_eq!(decided(&vmi(Running)), Ignore, "{state}");
        assert_eq!(decided(&deleting(Running)), shutdown(5), "{state}");
    }
    let migrating = NotifiedDomain {
        migrating: true,
        ..domain("Running/Unknown")
    };
    let decided = decide(Some(&vmi(Running)), Some(&migrating), Responsive, NOW);
    assert_eq!(decided, Ignore);
}

#[test]
fn a_delete_is_early_if_nobody_ended_the_vm() {
    let marked_for_shutdown = NotifiedDomain {
        grace: Some(DomainGrace {
            marked_for_shutdown: true,
            ..DomainGrace::default()
        }),
        ..domain("Shutoff/Unknown")
    };
    for (vmi, domain, early) in [
        (Some(vmi(Scheduled)), domain("Shutoff/Unknown"), true),
        (Some(vmi(Running)), domain("Shutoff/Unknown"), true),
        (Some(vmi(Running)), domain("Shutoff/Shutdown"), false),
        (Some(vmi(Running)), domain("Shutoff/Crashed"), false),
        (Some(vmi(Running)), domain("Shutoff/Migrated"), false),
        (Some(vmi(Running)), marked_for_shutdown, false),
        (Some(deleting(Scheduled)), domain("Shutoff/Unknown"), false),
        (Some(vmi(Failed)), domain("Running/Unknown"), false),
        (None, domain("Shutoff/Unknown"), false),
    ] {
        let found = is_early_delete(vmi.as_ref(), Some(&domain), Responsive);
        assert_eq!(found, early, "{vmi:?} {}", domain.state());
    }
}
