//! The driver contract on the fake daemon, with the QEMU driver's events, and what only the fake can do.

#![allow(clippy::unwrap_used, reason = "a test")]

mod driver_contract;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use driver_contract::domain_lifecycle::{self, Driver, NAME};
use driver_contract::memory_dump_contract;
use driver_contract::{Recorder, SharedDomain, wait_until};
use libvirt::fake::{Call, FakeDaemon, MigrationPlan};
use libvirt::{
    BlockInfo, BlockSize, CloseReason, DomainState, Event, JobOperation, MigrationFlags,
    MigrationRequest, Reason, ShutdownMode, StartOptions, State, code,
};

const XML: &str = "<domain type='kvm'>\n  <name>default_vm</name>\n</domain>";

fn running(fake: &FakeDaemon) -> (SharedDomain, Recorder) {
    let hypervisor = fake.connect().unwrap();
    let domain = hypervisor.define(XML).unwrap();
    domain.start(StartOptions::RUNNING).unwrap();
    (domain, Recorder::on(&*hypervisor, NAME))
}

#[test]
fn fake_daemon_keeps_the_domain_contract() {
    let driver = Driver {
        xml: XML.into(),
        start_paused: true,
        obeys_shutdown: true,
        refusals: &[code::OPERATION_INVALID],
        events: domain_lifecycle::QEMU,
    };
    domain_lifecycle::check(&*FakeDaemon::new().connect().unwrap(), &driver);
}

#[test]
fn fake_daemon_keeps_the_memory_dump_contract() {
    let fake = FakeDaemon::new();
    let directory = tempfile::tempdir().unwrap();
    let hypervisor = fake.connect().unwrap();
    memory_dump_contract::check(&*hypervisor, XML, directory.path(), || {
        fake.set_dump_duration(Duration::from_secs(60));
    });
}

#[test]
fn dump_fails_when_its_file_or_daemon_fails() {
    let fake = FakeDaemon::new();
    let (domain, recorder) = running(&fake);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.memory.dump");
    let dump = |domain: &SharedDomain| {
        let (domain, file) = (domain.clone(), file.to_str().unwrap().to_owned());
        std::thread::spawn(move || domain.core_dump_memory(&file))
    };
    let running = || fake.state(NAME).unwrap().state == DomainState::Running;
    fake.set_dump_duration(Duration::from_secs(60));
    for round in 0..2 {
        let dump = dump(&domain);
        wait_until("the dump writes", || file.exists());
        let refused = domain.shutdown(ShutdownMode::Acpi).unwrap_err();
        assert_eq!(refused.code, code::OPERATION_TIMEOUT);
        if round == 0 {
            fake.fail_dump(
                NAME,
                FakeDaemon::error(1, 0, "internal error: Child process died"),
            );
        } else {
            fake.stop_daemon(CloseReason::Eof);
        }
        assert_eq!(dump.join().unwrap().unwrap_err().code, 1);
        assert!(running() && !file.exists());
    }
    let events = ["Suspended Paused", "Resumed Unpaused", "Suspended Paused"];
    assert_eq!(recorder.lifecycle(3), events);
    fake.start_daemon();
    let domain = fake.connect().unwrap().lookup(NAME).unwrap().unwrap();
    fake.fail_next(
        Call::CoreDump,
        FakeDaemon::error(9, 10, "operation failed: no space"),
    );
    assert_eq!(dump(&domain).join().unwrap().unwrap_err().code, 9);
    assert!(running() && !file.exists());
}

#[test]
fn killed_qemu_leaves_a_crashed_domain() {
    let fake = FakeDaemon::new();
    let (domain, recorder) = running(&fake);
    fake.kill_qemu(NAME);
    assert_eq!(recorder.lifecycle(1), ["Stopped Failed"]);
    let crashed = State::new(DomainState::Shutoff, Reason::Crashed);
    assert_eq!(domain.state().unwrap(), crashed);
    fake.kill_qemu(NAME);
    assert!(recorder.lifecycle(0).is_empty());
}

#[test]
fn guest_can_ignore_a_shutdown_request() {
    let fake = FakeDaemon::new();
    let (domain, recorder) = running(&fake);
    fake.obey_shutdown(false);
    domain.shutdown(ShutdownMode::Acpi).unwrap();
    assert!(domain.state().unwrap().is_active());
    fake.power_off(NAME);
    assert_eq!(
        recorder.lifecycle(2),
        ["Shutdown Guest", "Stopped Shutdown"]
    );
}

#[test]
fn agent_answers_until_it_disconnects() {
    let fake = FakeDaemon::new();
    let (domain, recorder) = running(&fake);
    let second = Duration::from_secs(1);
    fake.set_agent(NAME, Some(Arc::new(|_| Ok(r#"{"return":{}}"#.into()))));
    assert_eq!(
        domain.agent_command("{}", second).unwrap(),
        r#"{"return":{}}"#
    );
    fake.set_agent(NAME, None);
    let error = domain.agent_command("{}", second).unwrap_err();
    assert!(error.is_agent_unresponsive());
    for expected in [true, false] {
        let connected = recorder.first(|event| match event {
            Event::AgentLifecycle { connected, .. } => Some(*connected),
            _ => None,
        });
        assert_eq!(connected, Some(expected));
    }
}

#[test]
fn domains_outlive_the_daemon_and_connections_do_not() {
    let fake = FakeDaemon::new();
    let (domain, recorder) = running(&fake);
    fake.stop_daemon(CloseReason::Eof);
    let reason = recorder.first(|event| match event {
        Event::ConnectionClosed { reason } => Some(*reason),
        _ => None,
    });
    assert_eq!(reason, Some(CloseReason::Eof));
    assert!(domain.state().is_err());
    assert_eq!(fake.connect().err().unwrap().code, code::SYSTEM_ERROR);
    fake.start_daemon();
    let repeated = fake.connect().unwrap().lookup(NAME).unwrap().unwrap();
    assert_eq!(repeated.state().unwrap().state, DomainState::Running);
    assert!(domain.state().is_err(), "an old handle stays dead");
}

#[test]
fn injected_failure_happens_once_and_calls_are_counted() {
    let fake = FakeDaemon::new();
    let domain = fake.connect().unwrap().define(XML).unwrap();
    fake.fail_next(Call::Start, FakeDaemon::error(1, 10, "internal error: no"));
    assert_eq!(domain.start(StartOptions::RUNNING).unwrap_err().code, 1);
    domain.start(StartOptions::RUNNING).unwrap();
    assert_eq!(fake.count(Call::Start), 2);
    assert_eq!(fake.calls().first(), Some(&Call::Connect));
}

#[test]
fn fds_are_associated_and_disks_resized() {
    let fake = FakeDaemon::new();
    let (domain, _recorder) = running(&fake);
    let file = tempfile::tempfile().unwrap();
    domain.associate_fds("iommu", &[file.as_fd()]).unwrap();
    assert_eq!(
        (
            fake.associated_fds(NAME, "iommu"),
            fake.associated_fds(NAME, "other")
        ),
        (1, 0)
    );
    let small = BlockInfo {
        capacity: 1,
        physical: 3,
        ..BlockInfo::default()
    };
    fake.set_block_info(NAME, "vda", small);
    for (size, expected) in [(BlockSize::Bytes(2), 2), (BlockSize::Device, 3)] {
        domain.resize_block("vda", size).unwrap();
        assert_eq!(domain.block_infos().unwrap()["vda"].capacity, expected);
    }
    assert_eq!(
        domain
            .resize_block("vdb", BlockSize::Device)
            .unwrap_err()
            .code,
        code::INVALID_ARG
    );
    fake.kill_qemu(NAME);
    assert!(domain.resize_block("vda", BlockSize::Device).is_err());
}

const MIGRATABLE: MigrationPlan = MigrationPlan {
    prepare: Duration::ZERO,
    transfer: Duration::ZERO,
    never_converges: false,
    stuck: false,
    abort_hangs: false,
    handed_over: false,
    recovery: Duration::ZERO,
};

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
    let (domain, recorder) = running(&fake);
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
    assert_eq!(sent[0].request.flags.bits(), 32_769);
}

#[test]
fn aborted_migration_ends_after_prepare_and_the_guest_runs_on() {
    let fake = FakeDaemon::new();
    let (domain, recorder) = running(&fake);
    fake.set_migration(MigrationPlan {
        prepare: Duration::from_millis(50),
        stuck: true,
        ..MIGRATABLE
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
    let (domain, recorder) = running(&fake);
    fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(100),
        never_converges: true,
        ..MIGRATABLE
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
