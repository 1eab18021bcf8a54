//! Tests of the decision rules for stale domains, launchers without a socket, migrations and early deletes.

use super::decision_rules::{
    Decision, LauncherState, Phase, VmiFacts, decide, is_early_delete, next_phase,
};
use super::decision_rules_tests::{NOW, check, deleting, domain, shutdown, vmi};
use super::notified_domain::{DomainGrace, NotifiedDomain};

use Decision::{CleanUpStale, Delete, Ignore, Nothing, Sync};
use LauncherState::{NotInitialized, Responsive, Unresponsive};
use Phase::{Failed, Running, Scheduled, Succeeded};

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
