//! [`FakeDaemon`], with which a test controls the fake daemon, its QEMU processes and their guests.

mod domain_properties;
mod dumps_migrations_and_backups;
mod guest_and_qemu_behavior;
mod incoming_migration;

use std::sync::Arc;
use std::time::Duration;

use super::Call;
use super::connection_handle::FakeConnection;
use super::daemon::Daemon;
use crate::error::{Error, Result};
use crate::event::{CloseReason, Event};
use crate::hypervisor_connection::HypervisorConnection;
pub use incoming_migration::Arrival;

/// Controls the daemon, its QEMU processes and their guests from a test. Clones control the same daemon.
#[derive(Clone, Default)]
pub struct FakeDaemon {
    daemon: Arc<Daemon>,
}

impl FakeDaemon {
    /// A daemon without domains.
    pub fn new() -> Self {
        FakeDaemon::default()
    }

    /// Opens a connection to the daemon.
    pub fn connect(&self) -> Result<Arc<dyn HypervisorConnection>> {
        Ok(Arc::new(FakeConnection::open(&self.daemon)?))
    }

    /// An error of libvirt; `code` is one of [`code`](crate::code), `origin` one of [`origin`](crate::origin).
    pub fn error(code: i32, origin: i32, message: &str) -> Error {
        Error {
            code,
            domain: origin,
            message: message.to_owned(),
        }
    }

    /// Makes the next such call fail. Several failures are used one after the other.
    pub fn fail_next(&self, call: Call, error: Error) {
        self.daemon
            .controls(|controls| controls.failures.push_back((call, error)));
    }

    /// Delays each such call. A delay of zero ends that.
    pub fn delay(&self, call: Call, delay: Duration) {
        self.daemon.controls(|controls| {
            controls.delays.insert(call, delay);
        });
    }

    /// The number of such calls so far, with those that failed.
    pub fn count(&self, call: Call) -> usize {
        self.daemon.controls(|controls| {
            controls
                .calls
                .iter()
                .filter(|&&recorded| recorded == call)
                .count()
        })
    }

    /// All calls so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.daemon.controls(|controls| controls.calls.clone())
    }

    /// Publishes an event.
    pub fn publish(&self, event: &Event) {
        self.daemon.publish(event);
    }

    /// Stops the daemon: connections end, and new ones are refused. Domains continue to run.
    pub fn stop_daemon(&self, reason: CloseReason) {
        self.daemon.stop(reason);
    }

    /// Starts the daemon again. Old connections stay closed.
    pub fn start_daemon(&self) {
        self.daemon.controls(|controls| controls.is_stopped = false);
    }
}
