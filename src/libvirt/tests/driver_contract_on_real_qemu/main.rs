//! The driver contract on real QEMU, with a libvirt session daemon in private namespaces.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

#[path = "../driver_contract/mod.rs"]
mod driver_contract;
mod namespaced_daemon;

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::chown;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use driver_contract::EventRecorder;
use driver_contract::domain_lifecycle::{self, Driver};
use driver_contract::memory_dump;
use libvirt::{
    BlockSize, CloseReason, DestroyMode, Domain, DomainState, Event, HypervisorConnection,
    LifecycleEvent, Reason, StartOptions, State, UndefineOptions,
};
use namespaced_daemon::{DAEMON_UID, NamespacedDaemon, start_daemon};

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
    check_associated_fds_and_disk_resize(&daemon, &*hypervisor);
    check_qemu_killed(&daemon, &*hypervisor);
    check_daemon_end(daemon, &*hypervisor);
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

fn disk(source: &str, target: &str) -> String {
    format!(
        "<disk type='file' device='disk'><driver name='qemu' type='raw'/><source {source}/>\
        <target dev='{target}' bus='virtio'/></disk>"
    )
}

/// Checks a disk whose image only this process can open, and a disk that is resized while the guest runs.
fn check_associated_fds_and_disk_resize(
    daemon: &NamespacedDaemon,
    hypervisor: &dyn HypervisorConnection,
) {
    const MIB: u64 = 1 << 20;
    let recorder = EventRecorder::subscribe(hypervisor, domain_lifecycle::NAME);
    let associated = tempfile::tempfile().unwrap();
    let resized = daemon.root.path().join("resized.img");
    for file in [&associated, &fs::File::create(&resized).unwrap()] {
        file.set_len(MIB).unwrap();
    }
    chown(&resized, Some(DAEMON_UID), Some(DAEMON_UID)).unwrap();
    let disks = disk("file='/nowhere/associated.img' fdgroup='associated'", "vda")
        + &disk(&format!("file='{}'", resized.display()), "vdb");
    let xml = XML.replace("</devices>", &format!("{disks}</devices>"));
    let domain = hypervisor.define(&xml).unwrap();
    let error = domain.start(StartOptions::PAUSED).unwrap_err();
    assert!(error.message.contains("'associated'"), "{error}");
    domain
        .associate_fds("associated", &[associated.as_fd()])
        .unwrap();
    domain.start(StartOptions::PAUSED).unwrap();
    let path = resized.to_str().unwrap();
    let capacity = || {
        domain
            .block_infos()
            .unwrap()
            .get(path)
            .map(|info| info.capacity)
    };
    assert_eq!(capacity(), Some(MIB));
    assert!(domain.disk_errors().unwrap().is_empty(), "both disks work");
    domain
        .resize_block("vdb", BlockSize::Bytes(2 * MIB))
        .unwrap();
    assert_eq!(capacity(), Some(2 * MIB));
    assert_eq!(fs::metadata(&resized).unwrap().len(), 2 * MIB);
    let error = domain.resize_block("vdc", BlockSize::Device).unwrap_err();
    assert!(error.message.contains("vdc"), "{error}");
    domain.destroy(DestroyMode::Forceful).unwrap();
    undefine(&*domain, &recorder);
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

fn check_qemu_killed(daemon: &NamespacedDaemon, hypervisor: &dyn HypervisorConnection) {
    let recorder = EventRecorder::subscribe(hypervisor, domain_lifecycle::NAME);
    let domain = hypervisor.define(XML).unwrap();
    domain.start(StartOptions::RUNNING).unwrap();
    let stats = domain.stats().unwrap().unwrap();
    assert_eq!(stats.vcpus.len(), 1);
    assert_eq!(stats.memory.total, Some(64 * 1024));
    assert!(stats.memory.rss.is_some() && stats.cpu.time.is_some());
    assert_eq!(stats.cpu_map.as_ref().map(Vec::len), Some(1));
    Command::new("kill")
        .args(["-9", &daemon.qemu_pid()])
        .status()
        .unwrap();
    assert_eq!(
        recorder.lifecycle(4),
        [
            "Defined Added",
            "Resumed Unpaused",
            "Started Booted",
            "Stopped Failed"
        ]
    );
    let crashed = State::new(DomainState::Shutoff, Reason::Crashed);
    assert_eq!(domain.state().unwrap(), crashed);
    undefine(&*domain, &recorder);
}

/// The daemon is killed while connections are opened and closed and events are delivered: calls fail, and nothing
/// crashes.
#[test]
fn calls_fail_cleanly_when_the_daemon_is_killed() {
    for round in 0..4 {
        let daemon = start_daemon();
        let uri = format!("qemu+unix:///session?socket={}", daemon.socket().display());
        let killed = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..3)
            .map(|client| {
                let (uri, killed) = (uri.clone(), Arc::clone(&killed));
                thread::spawn(move || {
                    while !killed.load(Relaxed) {
                        connect_and_define(&uri, client);
                    }
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(400 + 37 * round));
        drop(daemon);
        thread::sleep(Duration::from_millis(100));
        killed.store(true, Relaxed);
        for client in clients {
            client.join().unwrap();
        }
        assert!(libvirt::connect(&uri).is_err());
    }
}

/// Opens a connection, subscribes to events and defines a domain. Each call may fail.
fn connect_and_define(uri: &str, client: usize) {
    let Ok(hypervisor) = libvirt::connect(uri) else {
        return;
    };
    let (sender, _events) = std::sync::mpsc::channel();
    let subscription = hypervisor.subscribe(Box::new(move |event| drop(sender.send(event))));
    let name = format!("default_vm{client}");
    if let Ok(domain) = hypervisor.define(&XML.replace("default_vm", &name)) {
        let _ = domain.undefine(UndefineOptions::KEEP);
    }
    drop(subscription);
}

fn check_daemon_end(daemon: NamespacedDaemon, hypervisor: &dyn HypervisorConnection) {
    let recorder = EventRecorder::subscribe(hypervisor, domain_lifecycle::NAME);
    drop(daemon);
    let reason = recorder.first(|event| match event {
        Event::ConnectionClosed { reason } => Some(*reason),
        _ => None,
    });
    assert_eq!(reason, Some(CloseReason::Eof));
    assert!(!hypervisor.is_alive());
    assert!(hypervisor.lookup(domain_lifecycle::NAME).is_err());
}
