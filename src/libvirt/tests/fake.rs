//! The story on the fake, in the QEMU driver's words, and what only a fake can do.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use libvirt::fake::{Call, Fake};
use libvirt::{
    BlockInfo, BlockSize, CloseReason, DomainState, Event, Reason, ShutdownMode, Start, State, code,
};
use support::story::{self, Driver, NAME};
use support::{AGuest, Recorder};

const XML: &str = "<domain type='kvm'>\n  <name>default_vm</name>\n</domain>";

fn running(fake: &Fake) -> (AGuest, Recorder) {
    let hypervisor = fake.connect().unwrap();
    let guest = hypervisor.define(XML).unwrap();
    guest.start(Start::RUNNING).unwrap();
    (guest, Recorder::on(&*hypervisor, NAME))
}

#[test]
fn the_fake_tells_the_story() {
    let driver = Driver {
        xml: XML.into(),
        start_paused: true,
        obedient: true,
        refusals: &[code::OPERATION_INVALID],
        events: story::QEMU,
    };
    story::tell(&*Fake::new().connect().unwrap(), &driver);
}

#[test]
fn qemu_dies() {
    let fake = Fake::new();
    let (guest, recorder) = running(&fake);
    fake.kill_qemu(NAME);
    assert_eq!(recorder.lifecycle(1), ["Stopped Failed"]);
    let crashed = State::new(DomainState::Shutoff, Reason::Crashed);
    assert_eq!(guest.state().unwrap(), crashed);
    fake.kill_qemu(NAME);
    assert!(recorder.lifecycle(0).is_empty());
}

#[test]
fn a_guest_may_ignore_a_shutdown() {
    let fake = Fake::new();
    let (guest, recorder) = running(&fake);
    fake.obey_shutdown(false);
    guest.shutdown(ShutdownMode::Acpi).unwrap();
    assert!(guest.state().unwrap().is_active());
    fake.power_off(NAME);
    assert_eq!(
        recorder.lifecycle(2),
        ["Shutdown Guest", "Stopped Shutdown"]
    );
}

#[test]
fn an_agent_answers_until_it_goes_away() {
    let fake = Fake::new();
    let (guest, recorder) = running(&fake);
    let second = Duration::from_secs(1);
    fake.agent(NAME, Some(Arc::new(|_| Ok(r#"{"return":{}}"#.into()))));
    assert_eq!(
        guest.agent_command("{}", second).unwrap(),
        r#"{"return":{}}"#
    );
    fake.agent(NAME, None);
    let error = guest.agent_command("{}", second).unwrap_err();
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
fn a_daemon_that_stops_takes_connections_but_no_domains_with_it() {
    let fake = Fake::new();
    let (guest, recorder) = running(&fake);
    fake.stop_daemon(CloseReason::Eof);
    let reason = recorder.first(|event| match event {
        Event::ConnectionClosed { reason } => Some(*reason),
        _ => None,
    });
    assert_eq!(reason, Some(CloseReason::Eof));
    assert!(guest.state().is_err());
    assert_eq!(fake.connect().err().unwrap().code, code::SYSTEM_ERROR);
    fake.start_daemon();
    let again = fake.connect().unwrap().lookup(NAME).unwrap().unwrap();
    assert_eq!(again.state().unwrap().state, DomainState::Running);
    assert!(guest.state().is_err(), "an old handle stays dead");
}

#[test]
fn a_failure_is_injected_once_and_calls_are_counted() {
    let fake = Fake::new();
    let guest = fake.connect().unwrap().define(XML).unwrap();
    fake.fail_next(Call::Start, Fake::error(1, 10, "internal error: no"));
    assert_eq!(guest.start(Start::RUNNING).unwrap_err().code, 1);
    guest.start(Start::RUNNING).unwrap();
    assert_eq!(fake.count(Call::Start), 2);
    assert_eq!(fake.calls().first(), Some(&Call::Connect));
}

#[test]
fn files_are_lent_and_disks_grow() {
    let fake = Fake::new();
    let (guest, _recorder) = running(&fake);
    let file = tempfile::tempfile().unwrap();
    guest.associate_fds("iommu", &[file.as_fd()]).unwrap();
    assert_eq!((fake.lent(NAME, "iommu"), fake.lent(NAME, "other")), (1, 0));
    let small = BlockInfo {
        capacity: 1,
        physical: 3,
        ..BlockInfo::default()
    };
    fake.set_block(NAME, "vda", small);
    for (size, expected) in [(BlockSize::Bytes(2), 2), (BlockSize::Device, 3)] {
        guest.resize_block("vda", size).unwrap();
        assert_eq!(guest.block_info("vda").unwrap().capacity, expected);
    }
    assert_eq!(guest.block_info("vdb").unwrap_err().code, code::INVALID_ARG);
    fake.kill_qemu(NAME);
    assert!(guest.resize_block("vda", BlockSize::Device).is_err());
}

#[test]
fn metadata_of_the_definition_is_found_whatever_its_prefix() {
    let xml = XML.replace(
        "</domain>",
        "<metadata><k:kubevirt xmlns:k='http://kubevirt.io'><k:uid>u</k:uid></k:kubevirt></metadata></domain>",
    );
    let guest = Fake::new().connect().unwrap().define(&xml).unwrap();
    let found = guest.metadata(story::URI, libvirt::Affect::Config).unwrap();
    assert_eq!(found.as_deref(), Some("<kubevirt><uid>u</uid></kubevirt>"));
}
