//! The driver contract on real QEMU, with a libvirt session daemon in private namespaces.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

mod associated_fds_and_disk_resize;
#[path = "../driver_contract/mod.rs"]
mod driver_contract;
mod killed_qemu_and_daemon;
mod namespaced_daemon;

use std::fs;
use std::os::unix::fs::chown;

use driver_contract::EventRecorder;
use driver_contract::domain_lifecycle::{self, Driver};
use driver_contract::io_threads;
use driver_contract::memory_dump;
use libvirt::{Domain, Event, LifecycleEvent, UndefineOptions};
use namespaced_daemon::{DAEMON_UID, start_daemon};

const XML: &str = "<domain type='qemu'>
  <name>default_vm</name>
  <memory unit='MiB'>64</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <features><acpi/></features>
  <devices>
    <channel type='unix'>
      <target type='virtio' name='org.qemu.guest_agent.0'/>
    </channel>
    <memballoon model='virtio'/>
  </devices>
</domain>";

#[test]
fn real_qemu_keeps_the_domain_contract() {
    let daemon = start_daemon();
    let hypervisor = daemon.connect();
    assert!(hypervisor.qemu_version().unwrap() > libvirt::Version(5_000_000));
    let driver = Driver {
        xml: XML.into(),
        starts_paused: true,
        obeys_shutdown: false,
        state_error_codes: &[libvirt::code::OPERATION_INVALID],
        events: domain_lifecycle::QEMU_EVENTS,
    };
    domain_lifecycle::check(&*hypervisor, &driver);
    associated_fds_and_disk_resize::check(&daemon, &*hypervisor);
    let image = daemon.root.path().join("attached.img");
    fs::write(&image, [0; 4096]).unwrap();
    chown(&image, Some(DAEMON_UID), Some(DAEMON_UID)).unwrap();
    io_threads::check(&*hypervisor, XML, &image);
    killed_qemu_and_daemon::check_qemu_killed(&daemon, &*hypervisor);
    killed_qemu_and_daemon::check_daemon_end(daemon, &*hypervisor);
}

/// The guest has so much memory that the dump lasts while the test calls the daemon.
#[test]
fn real_qemu_keeps_the_memory_dump_contract() {
    let daemon = start_daemon();
    let hypervisor = daemon.connect();
    let directory = daemon.root.path().join("dumps");
    fs::create_dir(&directory).unwrap();
    chown(&directory, Some(DAEMON_UID), Some(DAEMON_UID)).unwrap();
    let xml = XML.replace("<memory unit='MiB'>64<", "<memory unit='MiB'>512<");
    memory_dump::check(&*hypervisor, &xml, &directory, || {});
}

/// Undefines the domain and waits for the event, so that the next recorder does not receive it.
fn undefine(domain: &dyn Domain, recorder: &EventRecorder) {
    domain.undefine(UndefineOptions::KEEP).unwrap();
    let undefined = recorder.first(|event| match event {
        Event::Lifecycle { event, .. } => (*event == LifecycleEvent::Undefined).then_some(()),
        _ => None,
    });
    undefined.expect("an event of the undefinition");
}
