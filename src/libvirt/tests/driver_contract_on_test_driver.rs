//! The driver contract on libvirt's test driver, which is part of the client library and needs no daemon and no root.

#![allow(clippy::unwrap_used, reason = "a test")]

mod driver_contract;

use driver_contract::domain_lifecycle::{self, Driver};
use libvirt::{StartOptions, Version, code};

const XML: &str = "<domain type='test'>
  <name>default_vm</name>
  <memory unit='KiB'>65536</memory>
  <os><type>hvm</type></os>
</domain>";

#[test]
fn test_driver_keeps_the_domain_contract() {
    let hypervisor = libvirt::connect("test:///default").unwrap();
    let driver = Driver {
        xml: XML.into(),
        starts_paused: false,
        // The test driver has neither ACPI nor an agent, and refuses such requests.
        obeys_shutdown: false,
        state_error_codes: &[
            code::OPERATION_INVALID,
            code::INTERNAL_ERROR,
            code::INVALID_ARG,
        ],
        events: domain_lifecycle::TEST_DRIVER_EVENTS,
    };
    domain_lifecycle::check(&*hypervisor, &driver);
}

#[test]
fn one_thread_runs_the_event_loop() {
    let _first = libvirt::connect("test:///default").unwrap();
    let _second = libvirt::connect("test:///default").unwrap();
    // The thread sets its name after it has started.
    driver_contract::wait_until("the event loop's thread has its name", || {
        event_loop_threads() > 0
    });
    assert_eq!(event_loop_threads(), 1);
}

fn event_loop_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.trim() == "libvirt-events")
        .count()
}

#[test]
fn error_contains_the_path_of_a_missing_socket() {
    let error = libvirt::connect("qemu+unix:///session?socket=/nowhere/virtqemud-sock")
        .err()
        .unwrap();
    assert_eq!(error.code, code::SYSTEM_ERROR);
    assert!(error.message.contains("/nowhere/virtqemud-sock"), "{error}");
}

#[test]
fn invalid_input_is_an_error() {
    let hypervisor = libvirt::connect("test:///default").unwrap();
    let error = hypervisor.define("<domain").err().unwrap();
    assert!(error.message.contains("domain"), "{error}");
    let error = hypervisor.define("<domain>\0</domain>").err().unwrap();
    assert_eq!(error.code, code::INVALID_ARG);
    let error = libvirt::connect("nosuch:///").err().unwrap();
    assert_ne!(error.code, 0, "{error}");
}

#[test]
fn panicking_event_handler_does_not_end_the_process() {
    let hypervisor = libvirt::connect("test:///default").unwrap();
    let _panicking = hypervisor
        .subscribe(Box::new(|_| panic!("a handler's own bug")))
        .unwrap();
    let recorder = driver_contract::EventRecorder::subscribe(&*hypervisor, "default_other");
    hypervisor
        .define(&XML.replace("default_vm", "default_other"))
        .unwrap();
    assert_eq!(recorder.lifecycle(1), ["Defined Added"]);
}

#[test]
fn domain_without_disks_has_no_disk_errors() {
    let hypervisor = libvirt::connect("test:///default").unwrap();
    let domain = hypervisor
        .define(&XML.replace("default_vm", "default_diskless"))
        .unwrap();
    domain.start(StartOptions::RUNNING).unwrap();
    assert!(domain.disk_errors().unwrap().is_empty());
}

#[test]
fn versions_are_returned() {
    let hypervisor = libvirt::connect("test:///default").unwrap();
    assert!(hypervisor.version().unwrap() > Version(6_000_000));
    assert_eq!(
        libvirt::library_version().unwrap(),
        hypervisor.version().unwrap()
    );
    hypervisor.qemu_version().unwrap();
}
