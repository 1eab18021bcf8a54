//! What a client sees when QEMU or the daemon is killed: events, states, and errors of calls.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use libvirt::{
    CloseReason, DomainState, Event, HypervisorConnection, Reason, StartOptions, State,
    UndefineOptions,
};

use crate::driver_contract::{EventRecorder, domain_lifecycle};
use crate::namespaced_daemon::{NamespacedDaemon, start_daemon};
use crate::{XML, undefine};

pub(crate) fn check_qemu_killed(daemon: &NamespacedDaemon, hypervisor: &dyn HypervisorConnection) {
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

pub(crate) fn check_daemon_end(daemon: NamespacedDaemon, hypervisor: &dyn HypervisorConnection) {
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
