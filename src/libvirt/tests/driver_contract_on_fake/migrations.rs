//! Migrations on the fake daemon: success, abort, and post-copy.

use std::time::Duration;

use libvirt::fake::{FakeDaemon, MigrationPlan};
use libvirt::{DomainState, JobOperation, MigrationFlags, MigrationRequest, Reason, State, code};

use crate::driver_contract::{SharedDomain, wait_until};
use crate::start_domain;

/// A migration that succeeds at once.
const IMMEDIATE_MIGRATION: MigrationPlan = MigrationPlan {
    prepare: Duration::ZERO,
    transfer: Duration::ZERO,
    never_converges: false,
    stuck: false,
    abort_hangs: false,
    handed_over: false,
    recovery: Duration::ZERO,
};

/// Starts a migration that may switch to post-copy, in a thread of its own.
fn migrate(domain: &SharedDomain) -> std::thread::JoinHandle<libvirt::Result<()>> {
    let domain = domain.clone();
    let request = MigrationRequest {
        flags: MigrationFlags::LIVE | MigrationFlags::POST_COPY,
        ..MigrationRequest::default()
    };
    std::thread::spawn(move || domain.migrate("qemu+unix:///session", &request))
}

#[test]
fn migrated_domain_is_shut_off_and_stays_defined() {
    let fake = FakeDaemon::new();
    let (domain, recorder) = start_domain(&fake);
    assert_eq!(
        domain.set_max_downtime(1).unwrap_err().code,
        code::OPERATION_INVALID
    );
    migrate(&domain).join().unwrap().unwrap();
    assert_eq!(
        recorder.lifecycle(2),
        ["Suspended Migrated", "Stopped Migrated"]
    );
    assert_eq!(
        domain.state().unwrap(),
        State::new(DomainState::Shutoff, Reason::Migrated)
    );
    let sent = fake.migrations();
    assert_eq!(sent.len(), 1);
    let expected = MigrationFlags::LIVE | MigrationFlags::POST_COPY;
    assert_eq!(sent[0].request.flags, expected);
}

#[test]
fn migration_aborted_during_preparation_ends_after_it_and_the_guest_runs_on() {
    let fake = FakeDaemon::new();
    let (domain, recorder) = start_domain(&fake);
    fake.set_migration(MigrationPlan {
        prepare: Duration::from_millis(50),
        stuck: true,
        ..IMMEDIATE_MIGRATION
    });
    let migration = migrate(&domain);
    wait_until("the migration runs", || {
        domain.job_stats().unwrap().operation == JobOperation::MigrationOut
    });
    assert_eq!(domain.resume().unwrap_err().code, code::OPERATION_TIMEOUT);
    domain.suspend().unwrap();
    assert_eq!(domain.state().unwrap().reason, Reason::Migration);
    domain.abort_job().unwrap();
    let error = migration.join().unwrap().unwrap_err();
    assert_eq!(error.code, code::OPERATION_ABORTED);
    assert!(error.message.contains("canceled by client"), "{error}");
    assert_eq!(
        recorder.lifecycle(2),
        ["Suspended Migrated", "Resumed Migrated"]
    );
}

#[test]
fn post_copy_ends_a_migration_that_never_converges_and_cannot_be_aborted() {
    let fake = FakeDaemon::new();
    let (domain, recorder) = start_domain(&fake);
    fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(100),
        never_converges: true,
        ..IMMEDIATE_MIGRATION
    });
    let migration = migrate(&domain);
    wait_until("the migration runs", || {
        domain.job_stats().unwrap().operation == JobOperation::MigrationOut
    });
    assert_eq!(
        domain.set_max_downtime(2_000_001).unwrap_err().code,
        code::INTERNAL_ERROR
    );
    domain.start_post_copy().unwrap();
    assert_eq!(
        domain.abort_job().unwrap_err().code,
        code::OPERATION_INVALID
    );
    migration.join().unwrap().unwrap();
    assert_eq!(
        recorder.lifecycle(3),
        [
            "Suspended Migrated",
            "Suspended Postcopy",
            "Stopped Migrated"
        ]
    );
}
