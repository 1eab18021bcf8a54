//! Errors of connections and calls, versions, and the event loop, all without a daemon.

use libvirt::{StartOptions, Version, code};

use crate::XML;
use crate::driver_contract::{EventRecorder, wait_until};

#[test]
fn one_thread_runs_the_event_loop() {
    let _first = libvirt::connect("test:///default").unwrap();
    let _second = libvirt::connect("test:///default").unwrap();
    // The thread sets its name after it has started.
    wait_until("the event loop's thread has its name", || {
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
    let recorder = EventRecorder::subscribe(&*hypervisor, "default_other");
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
