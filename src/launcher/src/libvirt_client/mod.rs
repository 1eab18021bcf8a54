//! Calls to libvirt: which connection they use, in which lane they wait, how long they may take.
//!
//! ```text
//!   queries ─▶ shared answers ─┐
//!   guest agent, operations ───┴▶ lanes (query, command, agent...) ─────────▶ connection ─▶ daemon
//!   kill, delete ───────────────▶ lane for ending ─▶ connection for ending ───────────────────▶ │
//!                                                  └▶ SIGKILL by pidfd, when the daemon hangs ─▶ QEMU
//! ```
//! Manager, agent and queries use the client; it depends on none of them.

mod cached_domain;
mod call_class;
mod destroy_domain;
mod dirty_rate;
mod disk_errors;
mod domain_snapshot;
mod ending_connection;
mod error;
mod reconnecting_connection;
mod request_device_detach;
mod screenshot;
mod single_flight_cache;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::libvirt_spec::DomainSpec;
use libvirt::{Domain, DomainStats, Event, HypervisorConnection, State, Version, XmlKind};
use tokio::time::Instant;

use crate::blocking::NoAnswer;

pub(crate) use call_class::{
    AGENT, AGENT_REBOOT, COMMAND, CallClass, POWER_BUTTON, QUERY_DEADLINE, QUICK, START,
};
pub(crate) use domain_snapshot::{DomainSnapshot, Presence, SnapshotError};
pub(crate) use error::{CallError, response_text};
pub(crate) use reconnecting_connection::{
    Connect, ConnectTarget, Connection, ConnectionError, ConnectionEvent,
};
pub(crate) use request_device_detach::request_detach;
pub(crate) use single_flight_cache::{CacheAge, SingleFlightCache};

use cached_domain::CachedDomain;
use call_class::{DESCRIPTION, Lanes, QUERY, STATE, STATISTICS};
use dirty_rate::{DIRTY_RATE_AGE, SharedDirtyRate};
use domain_snapshot::SpecReader;
use ending_connection::EndingConnection;
use reconnecting_connection::Session;

/// Statistics are at most as old as the reference's; polled ones are younger.
const STATISTICS_AGE: CacheAge = CacheAge {
    max: Duration::from_millis(3250),
    refresh_after: Duration::from_secs(1),
};

/// Calls libvirt about one domain. Clones are the same client.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    connection: Arc<Connection>,
    domain_name: String,
    /// Where libvirt writes the pid of the domain's QEMU.
    pid_file: PathBuf,
    lanes: Lanes,
    ending: EndingConnection,
    handle: CachedDomain,
    reader: SpecReader,
    snapshots: SingleFlightCache<Arc<DomainSnapshot>, SnapshotError>,
    statistics: SingleFlightCache<Option<Arc<str>>, CallError>,
    dirty_rate: SharedDirtyRate,
    /// QEMU's version, as the daemon of this session knows it.
    version: Mutex<Option<(u64, Version)>>,
}

impl Client {
    /// A client for the domain `domain_name`; libvirt writes its QEMU's pid to `pid_file`.
    pub fn new(connection: Arc<Connection>, domain_name: &str, pid_file: PathBuf) -> Client {
        Client(Arc::new(Inner {
            ending: EndingConnection::new(connection.connect()),
            connection,
            domain_name: domain_name.to_owned(),
            pid_file,
            lanes: Lanes::default(),
            handle: CachedDomain::default(),
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

    /// Opens connections of their own, for calls that last as long as their work.
    pub fn connect(&self) -> Connect {
        self.0.connection.connect()
    }

    /// Starts delivering events to `handler`, and connects again whenever the connection is lost.
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

    /// Delivers no more events and does not connect again.
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

    /// The domain may have changed: discards cached answers and those that are under way.
    pub fn invalidate(&self) {
        self.0.snapshots.invalidate();
        self.0.statistics.invalidate();
    }

    /// Runs blocking calls to libvirt; once more, if the connection had ended before they were sent.
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
            let session = self.0.connection.session().await;
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

    /// The domain, if libvirt knows it.
    pub async fn lookup(&self) -> Result<Option<Arc<dyn Domain>>, CallError> {
        self.lookup_named(self.domain_name()).await
    }

    /// The domain, which must exist.
    pub(crate) async fn require_domain(&self) -> Result<Arc<dyn Domain>, CallError> {
        let domain = self.lookup().await?;
        domain.ok_or_else(|| CallError::no_domain(self.domain_name()))
    }

    async fn lookup_named(&self, name: &str) -> Result<Option<Arc<dyn Domain>>, CallError> {
        let name = name.to_owned();
        self.read("looking up the domain", QUICK, move |_, session| {
            Ok(session.hypervisor.lookup(&name)?)
        })
        .await
    }

    /// The domain with its state, if libvirt knows it: one call, if the handle of an earlier one is still good.
    pub(crate) async fn lookup_with_state(
        &self,
    ) -> Result<Option<(Arc<dyn Domain>, State)>, CallError> {
        let find = |inner: &Inner, session: &Session| {
            let read = |domain: &Arc<dyn Domain>| Ok((Arc::clone(domain), domain.state()?));
            Ok(inner.handle.read(session, &inner.domain_name, read)?)
        };
        self.read("asking for the domain's state", QUICK, find)
            .await
    }

    /// Runs read-only calls on the domain, which is not looked up if the handle of an earlier call is still good; `None` when
    /// there is no such domain. When they fail because the connection broke, they are repeated once on the new connection.
    pub(crate) async fn query<T, F>(
        &self,
        what: &'static str,
        class: CallClass,
        work: F,
    ) -> Result<Option<T>, CallError>
    where
        T: Send + 'static,
        F: Fn(&dyn Domain) -> libvirt::Result<T> + Clone + Send + 'static,
    {
        let query = move |inner: &Inner, session: &Session| {
            let read = |domain: &Arc<dyn Domain>| work(&**domain);
            Ok(inner.handle.read(session, &inner.domain_name, read)?)
        };
        self.read(what, class, query).await
    }

    /// Runs blocking calls on a domain; once more, if the connection had ended before they were sent. A handle of
    /// a lost connection is replaced by one of the new.
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
            let domain = self.connected(domain).await?;
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

    async fn connected(&self, domain: &Arc<dyn Domain>) -> Result<Arc<dyn Domain>, CallError> {
        if domain.is_connected() {
            return Ok(Arc::clone(domain));
        }
        let found = self.lookup_named(domain.name()).await?;
        found.ok_or_else(|| CallError::no_domain(domain.name()))
    }

    /// The domain's state.
    pub async fn state_of(&self, domain: &Arc<dyn Domain>) -> Result<State, CallError> {
        let name = domain.name().to_owned();
        let state = move |inner: &Inner, session: &Session| {
            let state = inner.handle.read(session, &name, |domain| domain.state())?;
            state.ok_or_else(|| CallError::no_domain(&name))
        };
        self.read("asking for the domain's state", QUICK, state)
            .await
    }

    /// The domain's XML.
    pub async fn xml(&self, domain: &Arc<dyn Domain>, kind: XmlKind) -> Result<String, CallError> {
        let read = move |domain: &dyn Domain| domain.xml(kind);
        let what = "reading the domain's description";
        self.on(domain, what, QUICK, read).await
    }

    /// The description that the domain will have when it arrives by a migration: libvirt does not give it while data of
    /// the migration arrive.
    pub(crate) fn expect(&self, spec: DomainSpec) {
        self.0.reader.expect(spec);
    }

    /// A snapshot of the domain, within `deadline`. Concurrent callers share it.
    pub async fn snapshot(&self, deadline: Duration) -> Result<DomainSnapshot, SnapshotError> {
        let client = self.clone();
        let read = async move { client.read_snapshot().await.map(Arc::new) };
        let shared = tokio::time::timeout(deadline, self.0.snapshots.get(read)).await;
        let late = |_| NoAnswer::Late {
            what: "reading the domain's state and description",
            deadline,
        };
        shared.map_err(late)?.map(Arc::unwrap_or_clone)
    }

    async fn read_snapshot(&self) -> Result<DomainSnapshot, SnapshotError> {
        let state = |inner: &Inner, session: &Session| {
            let state = inner
                .handle
                .read(session, &inner.domain_name, |domain| domain.state());
            Ok::<_, SnapshotError>(state?)
        };
        let state = self.read("asking for the domain's state", STATE, state);
        let Some(state) = state.await? else {
            return Ok(DomainSnapshot::GONE);
        };
        // libvirt's job does not allow to read the description.
        if state.is_stopped_for_migration()
            && let Some(spec) = self.0.reader.last()
        {
            return Ok(DomainSnapshot::new(state, spec));
        }
        let spec = |inner: &Inner, session: &Session| {
            inner
                .reader
                .read(&inner.handle, session, &inner.domain_name)
        };
        let spec = self.read("reading the domain's description", DESCRIPTION, spec);
        let spec = match spec.await {
            // Its state is of this moment; the description rarely changes while the domain runs.
            Err(SnapshotError::NoAnswer(error)) if !state.is_down() => {
                tracing::debug!(reason = %error, "taking the domain's last description");
                Some(self.0.reader.last().ok_or(error)?)
            }
            result => result?,
        };
        // The domain may be gone since its state was read.
        Ok(match spec {
            Some(spec) => DomainSnapshot::new(state, spec),
            None => DomainSnapshot::GONE,
        })
    }

    /// Statistics of the running domain, `None` when it does not run. Callers share them; they are at most 3.25 s old.
    /// `render` makes the answer of the statistics and the description of the running domain.
    pub async fn statistics(
        &self,
        render: impl Fn(&DomainStats, &str) -> String + Send + 'static,
    ) -> Result<Option<Arc<str>>, CallError> {
        let client = self.clone();
        let read = async move {
            let read = |inner: &Inner, session: &Session| {
                let read =
                    |domain: &Arc<dyn Domain>| Ok((domain.stats()?, domain.xml(XmlKind::Active)?));
                Ok::<_, CallError>(inner.handle.read(session, &inner.domain_name, read)?)
            };
            let read = client.read("reading the domain's statistics", STATISTICS, read);
            let statistics = read.await?.and_then(|(stats, xml)| Some((stats?, xml)));
            Ok::<_, CallError>(statistics.map(|(stats, xml)| render(&stats, &xml).into()))
        };
        self.0.statistics.get(read).await
    }

    /// QEMU's version; a daemon is asked once.
    pub async fn qemu_version(&self) -> Result<Version, CallError> {
        let known = *self
            .0
            .version
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let generation = self.0.connection.generation();
        if let Some((_, version)) = known.filter(|(of, _)| *of == generation) {
            return Ok(version);
        }
        let ask = |_: &Inner, session: &Session| {
            Ok::<_, CallError>((session.generation, session.hypervisor.qemu_version()?))
        };
        let known = self.read("asking for QEMU's version", QUERY, ask).await;
        let known = known?;
        *self
            .0
            .version
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(known);
        Ok(known.1)
    }

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
        if class.changes() {
            self.invalidate();
        }
        Ok(result??)
    }

    /// Runs read-only calls. When they fail because the connection broke, they are repeated once on the new connection.
    async fn read<T, E, F>(&self, what: &'static str, class: CallClass, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<NoAnswer> + Send + 'static,
        F: Fn(&Inner, &Session) -> Result<T, E> + Clone + Send + 'static,
    {
        let deadline = class.deadline;
        let give_up = Instant::now() + deadline;
        let lane = self.0.lanes.get(class.lane);
        let mut is_repeated = false;
        loop {
            let session = self.0.connection.session().await;
            let (inner, work) = (Arc::clone(&self.0), work.clone());
            // The session ends its life on the lane's thread: closing a connection may block.
            let read = move || {
                let was_alive = session.hypervisor.is_alive();
                let result = work(&inner, &session);
                let broke = was_alive && !session.hypervisor.is_alive();
                (result, broke)
            };
            let left = give_up.saturating_duration_since(Instant::now());
            match lane.call(what, left, read).await {
                Ok((Err(_), true)) if !is_repeated => is_repeated = true,
                Ok((result, _)) => return result,
                Err(NoAnswer::Late { what, .. }) => {
                    return Err(NoAnswer::Late { what, deadline }.into());
                }
                Err(fault) => return Err(fault.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests;
