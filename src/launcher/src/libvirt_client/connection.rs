//! The connection to libvirt's daemon, which is opened again after a loss.
//!
//! ```text
//!   [connected] ──closed──▶ [lost] ──every 50 ms ──▶ [connected], callbacks registered again
//! ```
//! While the connection is lost, calls on the old connection fail at once; new calls wait for a moment for the new one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libvirt::{Domain, Event, EventHandler, HypervisorConnection, Subscription};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::blocking;
use crate::blocking::NoAnswer;

/// An event of libvirt or of the connection itself.
#[derive(Debug, Clone, PartialEq)]
pub enum ConnectionEvent {
    /// An event of libvirt; never the end of the connection.
    Libvirt(Event),
    /// The connection was lost and is restored. Events in between are lost.
    Reconnected,
}

/// Receives the connection's events. It must not block, since it also runs on libvirt's event thread.
type ConnectionEventHandler = Arc<dyn Fn(ConnectionEvent) + Send + Sync>;

/// The pause between two attempts while the daemon starts.
const START_RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// The pause between two attempts after a loss.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(50);
/// How long a call waits for the connection to be restored.
pub(super) const RECONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// One connection, from its opening to its loss.
#[derive(Clone)]
pub(super) struct Session {
    /// How many connections were opened before this one.
    pub(super) generation: u64,
    /// The connection.
    pub(super) hypervisor: Arc<dyn HypervisorConnection>,
}

/// The current session, which is replaced after a loss.
pub struct Connection {
    connect: Connect,
    uri: String,
    current: watch::Sender<Session>,
    stop: CancellationToken,
}

impl Connection {
    /// Connects; repeats this for `timeout` while the daemon starts.
    pub async fn open(
        uri: &str,
        connect: Connect,
        timeout: Duration,
    ) -> Result<Arc<Connection>, ConnectionError> {
        let deadline = Instant::now() + timeout;
        let hypervisor = loop {
            match attempt(uri, &connect).await {
                Ok(hypervisor) => break hypervisor,
                Err(error) if Instant::now() >= deadline => return Err(error),
                Err(_) => tokio::time::sleep(START_RETRY_INTERVAL).await,
            }
        };
        Ok(Arc::new(Connection {
            connect,
            uri: uri.to_owned(),
            current: watch::Sender::new(Session {
                generation: 0,
                hypervisor,
            }),
            stop: CancellationToken::new(),
        }))
    }

    /// The current session, and whether it was alive when it was chosen; waits for a moment for a lost connection to be
    /// restored.
    pub(super) async fn session(&self) -> (Session, bool) {
        let current = self.current();
        if current.hypervisor.is_alive() {
            return (current, true);
        }
        let mut sessions = self.current.subscribe();
        let restored = sessions.wait_for(|session| session.hypervisor.is_alive());
        match tokio::time::timeout(RECONNECT_TIMEOUT, restored).await {
            Ok(Ok(session)) => (session.clone(), true),
            // The call itself fails with the reason.
            _ => (self.current(), false),
        }
    }

    /// The generation of the current session.
    pub(super) fn generation(&self) -> u64 {
        self.current.borrow().generation
    }

    fn current(&self) -> Session {
        self.current.borrow().clone()
    }

    /// The function that opens further connections to the same daemon.
    pub fn connect(&self) -> Connect {
        Arc::clone(&self.connect)
    }

    /// Starts to deliver events to `handler`, and to restore the connection whenever it is lost.
    pub async fn monitor(
        self: &Arc<Self>,
        handler: impl Fn(ConnectionEvent) + Send + Sync + 'static,
    ) -> Result<(), ConnectionError> {
        let (loss_sender, losses) = mpsc::unbounded_channel();
        let reconnector = Reconnector {
            connection: Arc::clone(self),
            handler: Arc::new(handler),
            loss_sender,
        };
        let subscription = reconnector.subscribe(self.current()).await?;
        let reconnecting = self
            .stop
            .clone()
            .run_until_cancelled_owned(reconnector.run(subscription, losses));
        tokio::spawn(reconnecting);
        Ok(())
    }

    /// Stops delivering events and restoring the connection.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

/// The state of the task that restores the connection.
struct Reconnector {
    connection: Arc<Connection>,
    handler: ConnectionEventHandler,
    /// Receives the generation of each session that is lost.
    loss_sender: mpsc::UnboundedSender<u64>,
}

impl Reconnector {
    /// Restores the connection after each loss.
    async fn run(self, mut subscription: Subscription, mut losses: mpsc::UnboundedReceiver<u64>) {
        while let Some(generation) = losses.recv().await {
            // The loss of a session that was replaced already.
            if generation < self.connection.generation() {
                continue;
            }
            tracing::warn!(
                uri = self.connection.uri,
                "lost the connection to libvirt, connecting again"
            );
            let new = self.reconnect().await;
            // Dropping the old subscription may block in a call to the daemon that is gone.
            let old = std::mem::replace(&mut subscription, new);
            tokio::task::spawn_blocking(move || drop(old));
            tracing::info!("connected to libvirt again, events registered again");
            (self.handler)(ConnectionEvent::Reconnected);
        }
    }

    async fn reconnect(&self) -> Subscription {
        loop {
            match self.try_once().await {
                Ok(subscription) => return subscription,
                Err(error) => tracing::debug!(reason = %error, "libvirt is not back yet"),
            }
            tokio::time::sleep(RECONNECT_INTERVAL).await;
        }
    }

    async fn try_once(&self) -> Result<Subscription, ConnectionError> {
        let hypervisor = attempt(&self.connection.uri, &self.connection.connect).await?;
        let session = Session {
            generation: self.connection.generation() + 1,
            hypervisor,
        };
        let subscription = match self.subscribe(session.clone()).await {
            Ok(subscription) => subscription,
            Err(error) => {
                // Closing a connection whose daemon hangs may block.
                tokio::task::spawn_blocking(move || drop(session));
                return Err(error);
            }
        };
        let old = self.connection.current.send_replace(session);
        // Closing a connection whose daemon hangs may block.
        tokio::task::spawn_blocking(move || drop(old));
        Ok(subscription)
    }

    /// Registers for events, which are forwarded to the handler. The end of the connection is sent as a loss.
    async fn subscribe(&self, session: Session) -> Result<Subscription, ConnectionError> {
        let Session {
            generation,
            hypervisor,
        } = session;
        let (handler, loss_sender) = (Arc::clone(&self.handler), self.loss_sender.clone());
        let forward: EventHandler = Box::new(move |event| match event {
            // Fails only when the task that reconnects is gone.
            Event::ConnectionClosed { .. } => drop(loss_sender.send(generation)),
            event => handler(ConnectionEvent::Libvirt(event)),
        });
        let subscribed = blocking::call(
            "registering for libvirt's events",
            ATTEMPT_TIMEOUT,
            move || hypervisor.subscribe(forward),
        );
        match subscribed.await {
            Ok(result) => result.map_err(ConnectionError::Events),
            Err(source) => Err(ConnectionError::NoAnswer {
                uri: self.connection.uri.clone(),
                source,
            }),
        }
    }
}

/// Opens a connection to the daemon at a URI. Blocking.
pub(crate) type ConnectTarget =
    Arc<dyn Fn(&str) -> libvirt::Result<Arc<dyn HypervisorConnection>> + Send + Sync>;

/// Opens a connection to the pod's daemon. Blocking.
pub(crate) type Connect =
    Arc<dyn Fn() -> libvirt::Result<Arc<dyn HypervisorConnection>> + Send + Sync>;

/// How long one attempt to connect may take. libvirt itself may wait for a daemon that starts.
pub(super) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connecting to libvirt's daemon failed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The daemon does not run, or refuses the connection.
    #[error("connecting to libvirt at {uri}: {source}; is its daemon installed and running?")]
    Refused {
        /// The connection's URI.
        uri: String,
        /// libvirt's last error.
        source: libvirt::Error,
    },
    /// The attempt timed out.
    #[error("connecting to libvirt at {uri}: {source}")]
    NoAnswer {
        /// The connection's URI.
        uri: String,
        /// The call that timed out.
        source: NoAnswer,
    },
    /// Registering for events failed.
    #[error("registering for libvirt's events: {0}")]
    Events(libvirt::Error),
}

/// Tries once to connect.
pub(super) async fn attempt(
    uri: &str,
    connect: &Connect,
) -> Result<Arc<dyn HypervisorConnection>, ConnectionError> {
    let connect = Arc::clone(connect);
    let connected =
        blocking::CONNECT_LANE.call("connecting to libvirt", ATTEMPT_TIMEOUT, move || connect());
    match connected.await {
        Ok(Ok(hypervisor)) => Ok(hypervisor),
        Ok(Err(source)) => Err(ConnectionError::Refused {
            uri: uri.to_owned(),
            source,
        }),
        Err(source) => Err(ConnectionError::NoAnswer {
            uri: uri.to_owned(),
            source,
        }),
    }
}

/// The handle, with the generation of the session that it belongs to.
#[derive(Default)]
pub(super) struct DomainHandleCache(Mutex<Option<(u64, Arc<dyn Domain>)>>);

impl DomainHandleCache {
    /// Runs `read` on the domain; `None` when there is no such domain. Blocking.
    pub(super) fn read<T>(
        &self,
        session: &Session,
        name: &str,
        read: impl Fn(&Arc<dyn Domain>) -> libvirt::Result<T>,
    ) -> libvirt::Result<Option<T>> {
        if let Some(domain) = self.cached(session) {
            match read(&domain) {
                // The domain may have been defined again, with another UUID.
                Err(error) if error.is_no_domain() => self.store(None),
                result => return result.map(Some),
            }
        }
        let Some(domain) = session.hypervisor.lookup(name)? else {
            return Ok(None);
        };
        match read(&domain) {
            Err(error) if error.is_no_domain() => Ok(None),
            result => {
                self.store(Some((session.generation, domain)));
                result.map(Some)
            }
        }
    }

    fn cached(&self, session: &Session) -> Option<Arc<dyn Domain>> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (generation, domain) = cached.as_ref()?;
        (*generation == session.generation).then(|| Arc::clone(domain))
    }

    fn store(&self, handle: Option<(u64, Arc<dyn Domain>)>) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *cached, handle);
        drop(cached);
        // Dropped without the lock: the handle may be the last user of its connection, whose closing blocks.
        drop(old);
    }
}
