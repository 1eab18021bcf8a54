//! The story on libvirt's in-process driver: the real client library, no daemon, no root.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use libvirt::{Version, code};
use support::story::{self, Driver};

const XML: &str = "<domain type='test'>
  <name>default_vm</name>
  <memory unit='KiB'>65536</memory>
  <os><type>hvm</type></os>
</domain>";

#[test]
fn the_test_driver_tells_the_story() {
    let hypervisor = libvirt::connect("test:///default").unwrap();
    let driver = Driver {
        xml: XML.into(),
        start_paused: false,
        obedient: true,
        refusals: &[code::OPERATION_INVALID, code::INTERNAL_ERROR],
        events: story::TEST,
    };
    story::tell(&*hypervisor, &driver);
}

#[test]
fn one_thread_runs_the_event_loop() {
    let _first = libvirt::connect("test:///default").unwrap();
    let _second = libvirt::connect("test:///default").unwrap();
    // A thread gives itself its name.
    support::eventually("the loop's thread is there", || loops() > 0);
    assert_eq!(loops(), 1);
}

fn loops() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.trim() == "libvirt-events")
        .count()
}

#[test]
fn a_socket_that_is_not_there_is_named() {
    let error = libvirt::connect("qemu+unix:///session?socket=/nowhere/virtqemud-sock")
        .err()
        .unwrap();
    assert_eq!(error.code, code::SYSTEM_ERROR);
    assert!(error.message.contains("/nowhere/virtqemud-sock"), "{error}");
}

#[test]
fn bad_input_is_an_error() {
    let hypervisor = libvirt::connect("test:///default").unwrap();
    let error = hypervisor.define("<domain").err().unwrap();
    assert!(error.message.contains("domain"), "{error}");
    let error = hypervisor.define("<domain>\0</domain>").err().unwrap();
    assert_eq!(error.code, code::INVALID_ARG);
    let error = libvirt::connect("nosuch:///").err().unwrap();
    assert_ne!(error.code, 0, "{error}");
}

#[test]
fn a_panicking_sink_does_not_take_the_process_down() {
    let hypervisor = libvirt::connect("test:///default").unwrap();
    let _bad = hypervisor
        .subscribe(Box::new(|_| panic!("a sink's own bug")))
        .unwrap();
    let recorder = support::Recorder::on(&*hypervisor, "default_other");
    hypervisor
        .define(&XML.replace("default_vm", "default_other"))
        .unwrap();
    assert_eq!(recorder.lifecycle(1), ["Defined Added"]);
}

#[test]
fn versions_and_capabilities_are_told() {
    let hypervisor = libvirt::connect("test:///default").unwrap();
    assert!(hypervisor.version().unwrap() > Version(6_000_000));
    assert!(
        hypervisor
            .capabilities_xml()
            .unwrap()
            .contains("<capabilities>")
    );
    hypervisor.qemu_version().unwrap();
}
