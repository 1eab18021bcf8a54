//! What a test makes the fake daemon do: failures of QEMU, the daemon and single calls, a guest that ignores requests,
//! an agent, disk sizes.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use libvirt::fake::{Call, FakeDaemon};
use libvirt::{
    BlockInfo, BlockSize, CloseReason, DomainState, Event, Reason, ShutdownMode, StartOptions,
    State, code, origin,
};

use crate::driver_contract::domain_lifecycle::NAME;
use crate::driver_contract::{SharedDomain, wait_until};
use crate::{XML, start_domain};

#[test]
fn memory_dump_fails_when_qemu_or_the_daemon_fails() {
    let fake = FakeDaemon::new();
    let (domain, recorder) = start_domain(&fake);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.memory.dump");
    let dump = |domain: &SharedDomain| {
        let (domain, file) = (domain.clone(), file.to_str().unwrap().to_owned());
        std::thread::spawn(move || domain.core_dump_memory(&file))
    };
    let is_running = || fake.state(NAME).unwrap().state == DomainState::Running;
    fake.set_dump_duration(Duration::from_secs(60));
    for round in 0..2 {
        let dump = dump(&domain);
        wait_until("the dump writes", || file.exists());
        let error = domain.shutdown(ShutdownMode::Acpi).unwrap_err();
        assert_eq!(error.code, code::OPERATION_TIMEOUT);
        if round == 0 {
            fake.fail_dump(
                NAME,
                FakeDaemon::error(
                    code::INTERNAL_ERROR,
                    origin::NONE,
                    "internal error: Child process died",
                ),
            );
        } else {
            fake.stop_daemon(CloseReason::Eof);
        }
        assert_eq!(dump.join().unwrap().unwrap_err().code, code::INTERNAL_ERROR);
        assert!(is_running() && !file.exists());
    }
    let events = ["Suspended Paused", "Resumed Unpaused", "Suspended Paused"];
    assert_eq!(recorder.lifecycle(3), events);
    fake.start_daemon();
    let domain = fake.connect().unwrap().lookup(NAME).unwrap().unwrap();
    fake.fail_next(
        Call::CoreDump,
        FakeDaemon::error(
            code::OPERATION_FAILED,
            origin::QEMU,
            "operation failed: no space",
        ),
    );
    assert_eq!(
        dump(&domain).join().unwrap().unwrap_err().code,
        code::OPERATION_FAILED
    );
    assert!(is_running() && !file.exists());
}

#[test]
fn killed_qemu_leaves_a_crashed_domain() {
    let fake = FakeDaemon::new();
    let (domain, recorder) = start_domain(&fake);
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
    let (domain, recorder) = start_domain(&fake);
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
    let (domain, recorder) = start_domain(&fake);
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
fn domains_continue_without_the_daemon_and_connections_end() {
    let fake = FakeDaemon::new();
    let (domain, recorder) = start_domain(&fake);
    fake.stop_daemon(CloseReason::Eof);
    let reason = recorder.first(|event| match event {
        Event::ConnectionClosed { reason } => Some(*reason),
        _ => None,
    });
    assert_eq!(reason, Some(CloseReason::Eof));
    assert!(domain.state().is_err());
    assert_eq!(fake.connect().err().unwrap().code, code::SYSTEM_ERROR);
    fake.start_daemon();
    let domain_again = fake.connect().unwrap().lookup(NAME).unwrap().unwrap();
    assert_eq!(domain_again.state().unwrap().state, DomainState::Running);
    assert!(domain.state().is_err(), "an old handle stays invalid");
}

#[test]
fn queued_failure_happens_once_and_calls_are_counted() {
    let fake = FakeDaemon::new();
    let domain = fake.connect().unwrap().define(XML).unwrap();
    fake.fail_next(
        Call::Start,
        FakeDaemon::error(code::INTERNAL_ERROR, origin::QEMU, "internal error: no"),
    );
    assert_eq!(
        domain.start(StartOptions::RUNNING).unwrap_err().code,
        code::INTERNAL_ERROR
    );
    domain.start(StartOptions::RUNNING).unwrap();
    assert_eq!(fake.count(Call::Start), 2);
    assert_eq!(fake.calls().first(), Some(&Call::Connect));
}

#[test]
fn fds_are_associated_and_disks_resized() {
    let fake = FakeDaemon::new();
    let (domain, _recorder) = start_domain(&fake);
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
