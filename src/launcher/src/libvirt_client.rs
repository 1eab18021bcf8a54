//! Calls libvirt: chooses the connection, the lane and the deadline of each call.
//!
//! ```text
//!   queries ─▶ shared answers ─┐
//!   guest agent, operations ───┴▶ lanes (query, command, agent...) ─────────▶ connection ─▶ daemon
//!   kill, delete ───────────────▶ lane for ending ─▶ connection for ending ───────────────────▶ │
//!                                                  └▶ SIGKILL by pidfd, when the daemon hangs ─▶ QEMU
//! ```
//! Manager, agent and queries use the client; the client depends on none of them.

mod call;
mod connection;
mod domain_snapshot;
mod single_flight_cache;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::libvirt_spec::DomainSpec;
use libvirt::{
    Affect, DestroyMode, DiskFault, Domain, DomainStats, Event, HypervisorConnection, Screenshot,
    State, Version, XmlKind,
};
use rustix::process::Signal;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::blocking::NoAnswer;
use crate::qemu_process::QemuProcess;
pub(crate) use call::{
    AGENT, AGENT_PROBE, AGENT_REBOOT, COMMAND, CallClass, CallError, POWER_BUTTON, QUERY_DEADLINE,
    QUICK, START, response_text,
};
use call::{DESCRIPTION, ENDING, Lanes, QUERY, STATE, STATISTICS};
pub(crate) use connection::{Connect, ConnectTarget, Connection, ConnectionError, ConnectionEvent};
use connection::{DomainHandleCache, RECONNECT_TIMEOUT, Session};
use domain_snapshot::SpecReader;
pub(crate) use domain_snapshot::{DomainSnapshot, Presence, SnapshotError};
pub(crate) use single_flight_cache::{CacheAge, SingleFlightCache};

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

/// The pause between two attempts to connect.
const CONNECT_INTERVAL: Duration = Duration::from_millis(50);

/// The connection that is used only to end the domain.
struct EndingConnection {
    connect: Connect,
    current: Mutex<Option<Arc<dyn HypervisorConnection>>>,
}

impl EndingConnection {
    fn new(connect: Connect) -> EndingConnection {
        EndingConnection {
            connect,
            current: Mutex::default(),
        }
    }

    /// The connection, which is opened again if it was lost; waits for a daemon that restarts. Blocking.
    fn open(&self) -> libvirt::Result<Arc<dyn HypervisorConnection>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hypervisor) = current.as_ref().filter(|hypervisor| hypervisor.is_alive()) {
            return Ok(Arc::clone(hypervisor));
        }
        let deadline = std::time::Instant::now() + RECONNECT_TIMEOUT;
        loop {
            match (self.connect)() {
                Ok(hypervisor) => {
                    *current = Some(Arc::clone(&hypervisor));
                    return Ok(hypervisor);
                }
                Err(error) if std::time::Instant::now() >= deadline => return Err(error),
                Err(_) => std::thread::sleep(CONNECT_INTERVAL),
            }
        }
    }

    /// Runs `work` on the domain; runs it again if the connection broke meanwhile. `None` when there is no domain.
    /// Blocking.
    fn on<T>(
        &self,
        name: &str,
        work: impl Fn(&dyn Domain) -> libvirt::Result<T>,
    ) -> libvirt::Result<Option<T>> {
        let hypervisor = self.open()?;
        let run = |hypervisor: &dyn HypervisorConnection| match hypervisor.lookup(name)? {
            Some(domain) => work(&*domain).map(Some),
            None => Ok(None),
        };
        match run(&*hypervisor) {
            Err(_) if !hypervisor.is_alive() => run(&*self.open()?),
            result => result,
        }
    }
}

impl Client {
    /// Opens the connection before it is needed.
    fn open_ending_connection(&self) {
        let inner = Arc::clone(&self.0);
        let open = move || drop(inner.ending.open());
        self.0.lanes.get(ENDING.lane).push(Box::new(open));
    }

    /// Runs `work`, which ends the domain, in the lane and on the connection for this purpose; `None` when there is no
    /// domain. `work` runs twice when the connection breaks.
    pub async fn end<T, F>(&self, what: &'static str, work: F) -> Result<Option<T>, CallError>
    where
        T: Send + 'static,
        F: Fn(&dyn Domain) -> libvirt::Result<T> + Send + 'static,
    {
        self.end_within(what, ENDING, work).await
    }

    async fn end_within<T, F>(
        &self,
        what: &'static str,
        class: CallClass,
        work: F,
    ) -> Result<Option<T>, CallError>
    where
        T: Send + 'static,
        F: Fn(&dyn Domain) -> libvirt::Result<T> + Send + 'static,
    {
        let inner = Arc::clone(&self.0);
        let call = move || inner.ending.on(&inner.domain_name, work);
        match self.call(what, class, call).await {
            Err(CallError::Libvirt(error)) if error.is_no_domain() => Ok(None),
            result => result,
        }
    }

    /// The domain, if libvirt knows it.
    pub async fn lookup(&self) -> Result<Option<Arc<dyn Domain>>, CallError> {
        self.lookup_named(self.domain_name()).await
    }

    /// The domain; an error if libvirt does not know it.
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

    /// The domain with its state, if libvirt knows it. This takes one call if the cached handle is valid.
    pub(crate) async fn lookup_with_state(
        &self,
    ) -> Result<Option<(Arc<dyn Domain>, State)>, CallError> {
        let read_state = |inner: &Inner, session: &Session| {
            let read = |domain: &Arc<dyn Domain>| Ok((Arc::clone(domain), domain.state()?));
            Ok(inner.handle.read(session, &inner.domain_name, read)?)
        };
        self.read("asking for the domain's state", QUICK, read_state)
            .await
    }

    /// The domain's handle, or a new one if its connection was lost.
    async fn connected_handle(
        &self,
        domain: &Arc<dyn Domain>,
    ) -> Result<Arc<dyn Domain>, CallError> {
        if domain.is_connected() {
            return Ok(Arc::clone(domain));
        }
        let domain_again = self.lookup_named(domain.name()).await?;
        domain_again.ok_or_else(|| CallError::no_domain(domain.name()))
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

    /// Runs `work`, which makes read-only calls, on the domain; `None` when there is no such domain. The domain is not
    /// looked up if the cached handle is valid. When the calls fail since the connection broke, they are repeated once
    /// on the new connection.
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

    /// Stores the spec of a domain that arrives by a migration: libvirt does not return its XML while the migration's
    /// data arrive.
    pub(crate) fn expect(&self, spec: DomainSpec) {
        self.0.reader.expect(spec);
    }

    /// Takes a snapshot of the domain within `deadline`. Concurrent callers share the snapshot.
    pub async fn snapshot(&self, deadline: Duration) -> Result<DomainSnapshot, SnapshotError> {
        let client = self.clone();
        let read = async move { client.read_snapshot().await.map(Arc::new) };
        let shared = tokio::time::timeout(deadline, self.0.snapshots.get(read)).await;
        let late = |_| NoAnswer::Timeout {
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
        // libvirt does not return the XML during the migration's job.
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
            // The state is current, and the description rarely changes while the domain runs.
            Err(SnapshotError::NoAnswer(error)) if !state.is_down() => {
                tracing::debug!(reason = %error, "taking the domain's last description");
                Some(self.0.reader.last().ok_or(error)?)
            }
            result => result?,
        };
        // The domain may be gone: its state was read before.
        Ok(match spec {
            Some(spec) => DomainSnapshot::new(state, spec),
            None => DomainSnapshot::GONE,
        })
    }
}

/// How long statistics are cached: at most as long as in KubeVirt, and shorter if they are polled.
const STATISTICS_AGE: CacheAge = CacheAge {
    max: Duration::from_millis(3250),
    refresh_after: Duration::from_secs(1),
};

impl Client {
    /// The statistics of the running domain, rendered by `render` from libvirt's statistics and the domain's XML;
    /// `None` when the domain does not run. Callers share the answer, which is at most 3.25 s old.
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

    /// QEMU's version, which is read once per session.
    pub async fn qemu_version(&self) -> Result<Version, CallError> {
        let cached = *self
            .0
            .version
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let generation = self.0.connection.generation();
        if let Some((_, version)) = cached.filter(|(cached_in, _)| *cached_in == generation) {
            return Ok(version);
        }
        let ask = |_: &Inner, session: &Session| {
            Ok::<_, CallError>((session.generation, session.hypervisor.qemu_version()?))
        };
        let (generation, version) = self.read("asking for QEMU's version", QUERY, ask).await?;
        *self
            .0
            .version
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some((generation, version));
        Ok(version)
    }

    /// The errors of failing disks, by alias. libvirt queries QEMU for them.
    pub(crate) async fn disk_errors(
        &self,
        snapshot: &DomainSnapshot,
    ) -> Result<BTreeMap<String, DiskFault>, CallError> {
        let query = |domain: &dyn Domain| domain.disk_errors();
        let errors = self
            .query("asking for disk errors", STATISTICS, query)
            .await?
            .unwrap_or_default();
        let disks = snapshot.spec.iter().flat_map(|spec| &spec.devices.disks);
        let aliases: BTreeMap<&str, &str> = disks
            .filter_map(|disk| Some((&*disk.target.device, &*disk.alias.as_ref()?.name)))
            .collect();
        let errors = errors.into_iter().map(|(target, error)| {
            let alias = aliases.get(target.as_str()).copied();
            (alias.unwrap_or(&target).to_owned(), error)
        });
        Ok(errors.collect())
    }
}

/// Maximum size of the picture. virt-handler's gRPC client accepts messages of 4 MiB.
const MAX_SCREENSHOT_BYTES: usize = (4 << 20) - 4096;

impl Client {
    /// Takes a picture of the first screen.
    pub(crate) async fn screenshot(&self) -> Result<Screenshot, CallError> {
        let take = |domain: &dyn Domain| domain.screenshot(MAX_SCREENSHOT_BYTES);
        let screenshot = self.query("taking a screenshot", STATISTICS, take).await?;
        screenshot.ok_or_else(|| CallError::no_domain(self.domain_name()))
    }
}

/// How long the dirty rate is measured.
const MEASUREMENT_PERIOD: Duration = Duration::from_secs(1);
/// How long a measurement may take, including waiting for its start. virt-handler waits 5 s for GetVMStats.
const MEASUREMENT_TIMEOUT: Duration = Duration::from_secs(4);
/// The pause between two queries whether the measurement has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a result is cached: 3 s, as in KubeVirt's virt-launcher.
const DIRTY_RATE_AGE: CacheAge = CacheAge {
    max: Duration::from_secs(3),
    refresh_after: Duration::from_secs(3),
};
/// `VIR_DOMAIN_DIRTYRATE_MEASURED` of `virDomainDirtyRateStatus`.
const STATUS_MEASURED: i32 = 2;

/// The dirty rate could not be measured.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum DirtyRateError {
    /// A call to libvirt failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The domain has no QEMU process.
    #[error("the domain does not run, so that no dirty rate can be measured")]
    Down,
    /// The measurement did not end in time.
    #[error("QEMU has not measured the dirty rate within {MEASUREMENT_TIMEOUT:?}")]
    Timeout,
}

impl From<NoAnswer> for DirtyRateError {
    fn from(error: NoAnswer) -> Self {
        DirtyRateError::Call(error.into())
    }
}

impl DirtyRateError {
    /// The text for a `Response`.
    pub(crate) fn message(&self) -> String {
        match self {
            DirtyRateError::Call(error) => error.message(),
            other => other.to_string(),
        }
    }
}

type SharedDirtyRate = SingleFlightCache<i64, DirtyRateError>;

impl Client {
    /// How fast the guest writes to its memory, in MiB/s. Callers share a measurement for 3 s.
    pub(crate) async fn dirty_rate(&self) -> Result<i64, DirtyRateError> {
        let client = self.clone();
        let measure = async move { client.measure_dirty_rate().await };
        self.0.dirty_rate.get(measure).await
    }

    /// Returns the result of a measurement that begins after this call: the start of a measurement discards earlier
    /// results.
    async fn measure_dirty_rate(&self) -> Result<i64, DirtyRateError> {
        let deadline = Instant::now() + MEASUREMENT_TIMEOUT;
        let domain = self.require_domain().await?;
        while let Err(error) = self.start_measurement(&domain).await {
            // QEMU refuses while another measurement runs.
            if error.is_no_domain()
                || Instant::now() + MEASUREMENT_PERIOD + POLL_INTERVAL > deadline
            {
                return Err(error.into());
            }
            sleep(POLL_INTERVAL).await;
        }
        sleep(MEASUREMENT_PERIOD).await;
        while Instant::now() < deadline {
            let read = |domain: &dyn Domain| domain.dirty_rate();
            let rate = self
                .on(&domain, "reading the dirty rate", STATISTICS, read)
                .await?;
            let rate = rate.ok_or(DirtyRateError::Down)?;
            if rate.status == Some(STATUS_MEASURED)
                && let Some(mib_per_second) = rate.mib_per_second
            {
                return Ok(mib_per_second);
            }
            sleep(POLL_INTERVAL).await;
        }
        Err(DirtyRateError::Timeout)
    }

    async fn start_measurement(&self, domain: &Arc<dyn Domain>) -> Result<(), CallError> {
        let start = |domain: &dyn Domain| domain.start_dirty_rate_calculation(MEASUREMENT_PERIOD);
        self.on(domain, "measuring the dirty rate", STATISTICS, start)
            .await
    }
}

/// Part of QEMU's error for a device whose detachment was requested before.
const ALREADY_REQUESTED: &str = "already in the process of unplug";

/// Requests that the guest releases a device, without waiting: the guest may release it later, or never. The first
/// request removes the device from the persistent definition, so that later requests affect only the running domain.
pub(crate) fn request_detach(domain: &dyn Domain, xml: &str) -> libvirt::Result<()> {
    let result = match domain.detach_device(xml, Affect::LiveAndConfig) {
        Err(error) if error.is_device_missing() => domain.detach_device(xml, Affect::Live),
        result => result,
    };
    match result {
        // The device was released meanwhile, or the guest has not answered the earlier request yet.
        Err(error) if error.is_device_missing() || error.message.contains(ALREADY_REQUESTED) => {
            Ok(())
        }
        result => result,
    }
}

// Ends the domain even while other calls to libvirt hang.
//
// ```text
//   SIGTERM by libvirt ────────────────────────┬──12 s after the begin──▶ SIGKILL by pidfd ──▶ QEMU is gone
//   the daemon hangs ──1 s──▶ SIGTERM by pidfd ┘
// ```
// After SIGTERM, QEMU writes its caches and the bitmaps of changed blocks back, and the TPM its state; SIGKILL loses
// what is not written. So it comes as late as it may: virt-handler waits 20 s for the answer, and the kubelet kills
// the pod 15 s after the grace period, at whose end virt-handler or the launcher kills the VM.
//
// The calls have their own connection and threads: the daemon handles only a limited number of requests of one
// connection at a time, and queries that hang would keep it from handling these.

/// A daemon that takes longer than this to return the domain's state counts as hung.
const STATE_QUERY_TIMEOUT: Duration = Duration::from_secs(1);
/// How long finding QEMU's process may take, which reads two small files.
const PROCESS_LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);
/// How long QEMU may take to end by SIGTERM, with the two queries before that. libvirt waits 15 s.
const SIGTERM_TIMEOUT: Duration = Duration::from_secs(12);
/// How long libvirt may take to end a QEMU whose process is not found. It sends SIGKILL 10 s after SIGTERM.
const FORCEFUL_TIMEOUT: Duration = Duration::from_secs(14);
/// How long a process may take to end after SIGKILL. It takes longer only if it waits for storage.
const SIGKILL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the check takes whether a process has ended.
const EXIT_CHECK_TIMEOUT: Duration = Duration::from_millis(100);
/// How long libvirt may take to notice that QEMU has ended.
const LIBVIRT_NOTICE_TIMEOUT: Duration = Duration::from_secs(2);
const LIBVIRT_NOTICE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How a domain has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DomainEnd {
    /// It did not exist, or did not run.
    WasDown,
    /// QEMU has ended by SIGTERM.
    Terminated,
    /// QEMU did not end in time, and has ended by SIGKILL.
    Killed,
}

impl Client {
    /// Ends QEMU within 16 s. On success the process is gone. An error if this cannot be determined, neither by libvirt
    /// nor by the process: a daemon that hangs may be starting QEMU.
    pub(crate) async fn destroy(&self) -> Result<DomainEnd, CallError> {
        let kill_at = Instant::now() + SIGTERM_TIMEOUT;
        let process = self.process().await;
        let is_down = |domain: &dyn Domain| Ok(domain.state()?.is_down());
        let class = ENDING.within(STATE_QUERY_TIMEOUT);
        let is_down = self.end_within("asking whether the domain runs", class, is_down);
        let Some(process) = process else {
            return match is_down.await {
                Ok(None | Some(true)) => Ok(DomainEnd::WasDown),
                Err(error @ CallError::NoAnswer(_)) => Err(error),
                _ => self
                    .destroy_within(FORCEFUL_TIMEOUT, DestroyMode::Forceful)
                    .await
                    .map(|()| DomainEnd::Terminated),
            };
        };
        let libvirt_result = match is_down.await {
            // libvirt is starting this QEMU, or has given it up.
            Ok(None | Some(true)) => Ok(()),
            Err(error @ CallError::NoAnswer(_)) => {
                tracing::warn!(reason = %error, "libvirt's daemon hangs, sending SIGTERM to QEMU");
                Err(error)
            }
            _ => {
                let left = kill_at.saturating_duration_since(Instant::now());
                self.destroy_within(left, DestroyMode::Graceful).await
            }
        };
        if terminate(&process, kill_at).await {
            return Ok(DomainEnd::Terminated);
        }
        self.kill(&process, libvirt_result)
            .await
            .map(|()| DomainEnd::Killed)
    }

    /// The domain's QEMU process, if it runs. Not on an async worker, since `/proc` may hang for a process that waits
    /// for storage.
    async fn process(&self) -> Option<QemuProcess> {
        let (inner, runtime) = (Arc::clone(&self.0), Handle::current());
        let open = move || {
            // `QemuProcess` registers a pidfd with the runtime.
            let _runtime = runtime.enter();
            let process = QemuProcess::open(&inner.pid_file).ok();
            process.filter(|process| process.is_qemu_of_domain(&inner.domain_name))
        };
        let lane = self.0.lanes.process();
        match lane
            .call("looking for QEMU", PROCESS_LOOKUP_TIMEOUT, open)
            .await
        {
            Ok(process) => process,
            Err(error) => {
                tracing::warn!(reason = %error, "only libvirt can end QEMU");
                None
            }
        }
    }

    async fn destroy_within(&self, deadline: Duration, how: DestroyMode) -> Result<(), CallError> {
        let destroy = move |domain: &dyn Domain| match domain.state()?.is_down() {
            true => Ok(()),
            false => match domain.destroy(how) {
                Err(error) if error.is_operation_invalid() => Ok(()),
                result => result,
            },
        };
        let class = ENDING.within(deadline);
        let ended = self.end_within("ending the domain", class, destroy);
        ended.await.map(drop)
    }

    /// Sends SIGKILL, the last resort. `libvirt_result` is the result of destroying the domain by libvirt; its error is
    /// returned if the process does not end.
    async fn kill(
        &self,
        process: &QemuProcess,
        libvirt_result: Result<(), CallError>,
    ) -> Result<(), CallError> {
        tracing::warn!(
            pid = process.pid(),
            "QEMU has not ended by SIGTERM, sending SIGKILL"
        );
        if let Err(error) = process.signal(Signal::KILL) {
            tracing::debug!(reason = %error, "sending SIGKILL to QEMU");
        }
        if !process.exits_within(SIGKILL_TIMEOUT).await {
            libvirt_result?;
            return Err(CallError::NotEnded { pid: process.pid() });
        }
        self.invalidate();
        // A delete that follows needs libvirt to have noticed the end. A hung daemon does not notice it in time.
        let _ = tokio::time::timeout(
            LIBVIRT_NOTICE_TIMEOUT,
            self.wait_until_libvirt_sees_the_end(),
        )
        .await;
        Ok(())
    }

    /// Returns when libvirt reports that the domain does not run.
    async fn wait_until_libvirt_sees_the_end(&self) {
        const WHAT: &str = "asking whether the domain has ended";
        let is_down = |domain: &dyn Domain| Ok(domain.state()?.is_down());
        let class = ENDING.within(STATE_QUERY_TIMEOUT);
        while let Ok(Some(false)) = self.end_within(WHAT, class, is_down).await {
            sleep(LIBVIRT_NOTICE_POLL_INTERVAL).await;
        }
    }
}

/// Sends SIGTERM, which libvirt may have sent before. Returns whether QEMU has ended in time.
async fn terminate(process: &QemuProcess, kill_at: Instant) -> bool {
    // It fails if the process has ended.
    if let Err(error) = process.signal(Signal::TERM) {
        tracing::debug!(reason = %error, "sending SIGTERM to QEMU");
    }
    let left = kill_at.saturating_duration_since(Instant::now());
    // After its whole time in libvirt's call, QEMU gets a moment to be seen as ended.
    process.exits_within(left.max(EXIT_CHECK_TIMEOUT)).await
}

#[cfg(test)]
mod tests;
