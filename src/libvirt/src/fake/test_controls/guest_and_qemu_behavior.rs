//! What a test makes a guest or its QEMU process do: power off, crash, report disk errors, connect its agent.

use super::FakeDaemon;
use crate::disk_sizes_and_errors::DiskFault;
use crate::domain_state::{DomainState, State};
use crate::event::{Detail, Event, LifecycleEvent};
use crate::fake::Agent;
use crate::state_reason::Reason;

impl FakeDaemon {
    /// Sets whether guests power off when they are asked to. By default they do.
    pub fn obey_shutdown(&self, obeys: bool) {
        self.daemon
            .controls(|controls| controls.ignores_shutdown = !obeys);
    }

    /// Sets whether the guest ignores requests to release a device; libvirt's call succeeds all the same. When the
    /// guest no longer ignores them, it releases the devices that it has kept.
    pub fn keep_devices(&self, domain: &str, keep: bool) {
        self.daemon.change_if_active(domain, |domain| {
            domain.keeps_devices = keep;
            if keep {
                Vec::new()
            } else {
                domain.release_devices()
            }
        });
    }

    /// Makes the guest power itself off.
    pub fn power_off(&self, domain: &str) {
        self.daemon
            .change_if_active(domain, |domain| domain.power_off());
    }

    /// Makes QEMU begin to shut down, as when libvirt ends it after a migration. QEMU has not ended yet.
    pub fn begin_qemu_shutdown(&self, domain: &str) {
        self.daemon.change_if_active(domain, |domain| {
            domain.state = State::new(DomainState::Shutdown, Reason::Unknown);
            vec![domain.lifecycle(LifecycleEvent::Shutdown, Detail::Host)]
        });
    }

    /// Kills QEMU.
    pub fn kill_qemu(&self, domain: &str) {
        self.daemon.change_if_active(domain, |domain| {
            domain.end_qemu(Reason::Crashed, Detail::Failed)
        });
    }

    /// Makes the guest's kernel panic, with a panic device and `on_crash` destroy.
    pub fn panic_guest(&self, domain: &str) {
        self.daemon.change_if_active(domain, |domain| {
            let panicked = domain.lifecycle(LifecycleEvent::Crashed, Detail::Panicked);
            let mut events = vec![panicked];
            events.extend(domain.end_qemu(Reason::Crashed, Detail::Crashed));
            events
        });
    }

    /// Sets the error that QEMU reports for a disk, by its target.
    pub fn set_disk_error(&self, domain: &str, target: &str, error: DiskFault) {
        self.daemon.with_domain(domain, |domain| {
            domain.disk_errors.insert(target.to_owned(), error);
        });
    }

    /// Makes a disk error pause the guest.
    pub fn io_error(&self, domain: &str, alias: &str) {
        self.daemon.change_if_active(domain, |domain| {
            domain.state = State::new(DomainState::Paused, Reason::IOError);
            let io_error = Event::IoError {
                pauses_guest: true,
                domain: domain.name.clone(),
                alias: alias.to_owned(),
                path: String::new(),
                reason: "enospc".to_owned(),
            };
            vec![
                io_error,
                domain.lifecycle(LifecycleEvent::Suspended, Detail::IoError),
            ]
        });
    }

    /// Connects or disconnects the guest agent.
    pub fn set_agent(&self, domain: &str, agent: Option<Agent>) {
        self.daemon.change_if_active(domain, |domain| {
            let connected = agent.is_some();
            domain.agent = agent;
            vec![Event::AgentLifecycle {
                domain: domain.name.clone(),
                connected,
            }]
        });
    }
}
