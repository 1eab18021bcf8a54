//! The driver contract on the fake daemon, with the QEMU driver's events; beside it tests of what only the fake can do.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../driver_contract/mod.rs"]
mod driver_contract;
mod fake_daemon_behavior;
mod migrations;

use std::time::Duration;

use driver_contract::domain_lifecycle::{self, Driver, NAME};
use driver_contract::io_threads;
use driver_contract::memory_dump;
use driver_contract::{EventRecorder, SharedDomain};
use libvirt::fake::FakeDaemon;
use libvirt::{StartOptions, code};

const XML: &str = "<domain type='kvm'>\n  <name>default_vm</name>\n</domain>";

/// A running domain and the events that follow its start.
fn start_domain(fake: &FakeDaemon) -> (SharedDomain, EventRecorder) {
    let hypervisor = fake.connect().unwrap();
    let domain = hypervisor.define(XML).unwrap();
    domain.start(StartOptions::RUNNING).unwrap();
    (domain, EventRecorder::subscribe(&*hypervisor, NAME))
}

#[test]
fn fake_daemon_keeps_the_domain_contract() {
    let driver = Driver {
        xml: XML.into(),
        starts_paused: true,
        obeys_shutdown: true,
        state_error_codes: &[code::OPERATION_INVALID],
        events: domain_lifecycle::QEMU_EVENTS,
    };
    domain_lifecycle::check(&*FakeDaemon::new().connect().unwrap(), &driver);
}

#[test]
fn fake_daemon_keeps_the_contract_of_io_threads() {
    let hypervisor = FakeDaemon::new().connect().unwrap();
    io_threads::check(&*hypervisor, XML, "/nowhere/disk.img".as_ref());
}

#[test]
fn fake_daemon_keeps_the_memory_dump_contract() {
    let fake = FakeDaemon::new();
    let directory = tempfile::tempdir().unwrap();
    let hypervisor = fake.connect().unwrap();
    memory_dump::check(&*hypervisor, XML, directory.path(), || {
        fake.set_dump_duration(Duration::from_secs(60));
    });
}
