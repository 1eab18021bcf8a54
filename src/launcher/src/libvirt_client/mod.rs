//! Calls libvirt: chooses the connection, the lane and the deadline of each call.
//!
//! ```text
//!   queries ─▶ shared answers ─┐
//!   guest agent, operations ───┴▶ lanes (query, command, agent...) ─────────▶ connection ─▶ daemon
//!   kill, delete ───────────────▶ lane for ending ─▶ connection for ending ───────────────────▶ │
//!                                                  └▶ SIGKILL by pidfd, when the daemon hangs ─▶ QEMU
//! ```
//! Manager, agent and queries use the client; the client depends on none of them.

mod call_class;
mod call_error;
mod connection_attempt;
mod connection_for_ending_domain;
mod destroy_domain;
mod dirty_rate;
mod disk_errors;
mod domain_handle_cache;
mod domain_queries;
mod domain_snapshot;
mod read_snapshot;
mod reconnecting_connection;
mod request_device_detach;
mod screenshot;
mod single_flight_cache;
mod statistics_and_qemu_version;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use libvirt::{Domain, Event, HypervisorConnection, Version};
use tokio::time::Instant;

use crate::blocking::NoAnswer;

pub(crate) use call_class::{
    AGENT, AGENT_PROBE, AGENT_REBOOT, COMMAND, CallClass, POWER_BUTTON, QUERY_DEADLINE, QUICK,
    START,
};
pub(crate) use call_error::{CallError, response_text};
pub(crate) use connection_attempt::{Connect, ConnectTarget, ConnectionError};
pub(crate) use destroy_domain::DomainEnd;
pub(crate) use domain_snapshot::{DomainSnapshot, Presence, SnapshotError};
pub(crate) use reconnecting_connection::{Connection, ConnectionEvent};
pub(crate) use request_device_detach::request_detach;
pub(crate) use single_flight_cache::{CacheAge, SingleFlightCache};

use call_class::Lanes;
use connection_for_ending_domain::EndingConnection;
use dirty_rate::{DIRTY_RATE_AGE, SharedDirtyRate};
use domain_handle_cache::DomainHandleCache;
use domain_snapshot::SpecReader;
use reconnecting_connection::Session;
use statistics_and_qemu_version::STATISTICS_AGE;

/// Calls libvirt about one domain. Clones share their state.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    connection: Arc<Connection>,
    domain_name: String,
    /// The file to which libvirt writes the pid of the domain's QEMU.
    pid_file: PathBuf,
    lanes: Lanes,
    ending: EndingConnection,
    handle: DomainHandleCache,
    reader: SpecReader,
    snapshots: SingleFlightCache<Arc<DomainSnapshot>, SnapshotError>,
    statistics: SingleFlightCache<Option<Arc<str>>, CallError>,
    dirty_rate: SharedDirtyRate,
    /// QEMU's version, with the generation of the session in which it was read.
    version: Mutex<Option<(u64, Version)>>,
}

impl Client {
    /// A client for the domain `domain_name`; libvirt writes the pid of the domain's QEMU to `pid_file`.
    pub fn new(connection: Arc<Connection>, domain_name: &str, pid_file: PathBuf) -> Client {
        Client(Arc::new(Inner {
            ending: EndingConnection::new(connection.connect()),
            connection,
            domain_name: domain_name.to_owned(),
            pid_file,
            lanes: Lanes::default(),
            handle: DomainHandleCache::default(),
            reader: SpecReader::default(),
            snapshots: SingleFlightCache::new("reading the domain", CacheAge::NONE),
            statistics: SingleFlightCache::new("reading statistics", STATISTICS_AGE),
            dirty_rate: SingleFlightCache::new("measuring the dirty rate", DIRTY_RATE_AGE),
            version: Mutex::default(),
        }))
    }

    /// The domain's name.
    pub fn domain_name(&self) -> &str {
        &self.0.domain_name
    }

    /// The function that opens further connections, for calls that last as long as the operation.
    pub fn connect(&self) -> Connect {
        self.0.connection.connect()
    }

    /// Starts to deliver events to `handler`, and to restore the connection whenever it is lost.
    pub async fn monitor(
        &self,
        handler: impl Fn(ConnectionEvent) + Send + Sync + 'static,
    ) -> Result<(), ConnectionError> {
        self.open_ending_connection();
        let client = self.clone();
        let handler = move |event| {
            client.observe(&event);
            handler(event);
        };
        self.0.connection.monitor(handler).await
    }

    /// Stops delivering events and restoring the connection.
    pub fn stop(&self) {
        self.0.connection.stop();
    }

    fn observe(&self, event: &ConnectionEvent) {
        match event {
            ConnectionEvent::Libvirt(event) if event.domain() != Some(self.domain_name()) => {}
            ConnectionEvent::Libvirt(Event::Lifecycle { .. }) | ConnectionEvent::Reconnected => {
                self.invalidate();
            }
            ConnectionEvent::Libvirt(_) => self.0.snapshots.invalidate(),
        }
    }

    /// Discards cached answers and those of running calls, since the domain may have changed.
    pub fn invalidate(&self) {
        self.0.snapshots.invalidate();
        self.0.statistics.invalidate();
    }

    /// Runs `work`, which calls libvirt; runs it again if the connection had ended before a call was sent.
    pub async fn libvirt<T, F>(
        &self,
        what: &'static str,
        class: CallClass,
        work: F,
    ) -> Result<T, CallError>
    where
        T: Send + 'static,
        F: Fn(&dyn HypervisorConnection) -> libvirt::Result<T> + Send + Sync + 'static,
    {
        let work = Arc::new(work);
        let attempt = async |class| {
            let (session, _) = self.0.connection.session().await;
            let work = Arc::clone(&work);
            let call = move || work(&*session.hypervisor);
            self.call(what, class, call).await
        };
        let begin = Instant::now();
        match attempt(class).await {
            Err(CallError::Libvirt(error)) if error.is_unsent() => {
                attempt(class.since(begin)).await
            }
            result => result,
        }
    }

    /// Runs `work` on a domain; runs it again if the connection had ended before a call was sent. A handle of a lost
    /// connection is replaced by one of the new connection.
    pub async fn on<T, F>(
        &self,
        domain: &Arc<dyn Domain>,
        what: &'static str,
        class: CallClass,
        work: F,
    ) -> Result<T, CallError>
    where
        T: Send + 'static,
        F: Fn(&dyn Domain) -> libvirt::Result<T> + Send + Sync + 'static,
    {
        let work = Arc::new(work);
        let attempt = async |class| {
            let domain = self.connected_handle(domain).await?;
            let work = Arc::clone(&work);
            self.call(what, class, move || work(&*domain)).await
        };
        let begin = Instant::now();
        match attempt(class).await {
            Err(CallError::Libvirt(error)) if error.is_unsent() => {
                attempt(class.since(begin)).await
            }
            result => result,
        }
    }

    /// Runs a call in the lane of its class. Discards cached answers if the call may change the domain.
    async fn call<T, F>(
        &self,
        what: &'static str,
        class: CallClass,
        work: F,
    ) -> Result<T, CallError>
    where
        T: Send + 'static,
        F: FnOnce() -> libvirt::Result<T> + Send + 'static,
    {
        let lane = self.0.lanes.get(class.lane);
        let result = lane.call(what, class.deadline, work).await;
        if class.may_change_domain() {
            self.invalidate();
        }
        Ok(result??)
    }

    /// Runs `work`, which makes read-only calls. When it fails since the connection broke, it is repeated once on the
    /// new connection.
    async fn read<T, E, F>(&self, what: &'static str, class: CallClass, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<NoAnswer> + Send + 'static,
        F: Fn(&Inner, &Session) -> Result<T, E> + Clone + Send + 'static,
    {
        let deadline = class.deadline;
        let end = Instant::now() + deadline;
        let lane = self.0.lanes.get(class.lane);
        let mut is_repeated = false;
        loop {
            // Whether it is alive is asked here, not on the lane's thread: the connection may end while the query waits for
            // a thread.
            let (session, was_alive) = self.0.connection.session().await;
            let (inner, work) = (Arc::clone(&self.0), work.clone());
            // The session is dropped on the lane's thread, since closing a connection may block.
            let read = move || {
                let result = work(&inner, &session);
                let broke = was_alive && !session.hypervisor.is_alive();
                (result, broke)
            };
            let remaining = end.saturating_duration_since(Instant::now());
            match lane.call(what, remaining, read).await {
                Ok((Err(_), true)) if !is_repeated => is_repeated = true,
                Ok((result, _)) => return result,
                Err(NoAnswer::Timeout { what, .. }) => {
                    return Err(NoAnswer::Timeout { what, deadline }.into());
                }
                Err(panic) => return Err(panic.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests;
