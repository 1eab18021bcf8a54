//! The connection to libvirt's daemon, which is restored after a loss.
//!
//! ```text
//!   [connected] ──closed──▶ [lost] ──every 50 ms ──▶ [connected], callbacks registered again
//! ```
//! While it is lost, calls on the old connection fail at once; new ones wait a moment for the new connection.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{Event, EventHandler, HypervisorConnection, Subscription};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::blocking::{self, NoAnswer};

/// Opens a connection to the daemon at a URI. Blocking.
pub(crate) type ConnectTarget =
    Arc<dyn Fn(&str) -> libvirt::Result<Arc<dyn HypervisorConnection>> + Send + Sync>;
/// Opens a connection to the pod's daemon. Blocking.
pub(crate) type Connect =
    Arc<dyn Fn() -> libvirt::Result<Arc<dyn HypervisorConnection>> + Send + Sync>;

/// What the connection reports.
#[derive(Debug, Clone, PartialEq)]
pub enum ConnectionEvent {
    /// An event of libvirt's; never the connection's end.
    Libvirt(Event),
    /// The connection was lost and is back; events in between are lost.
    Reconnected,
}

/// Receives the connection's events, also on libvirt's event thread: it must not block.
type ConnectionEventHandler = Arc<dyn Fn(ConnectionEvent) + Send + Sync>;

/// Longest single attempt; libvirt itself may wait for a daemon to start.
const ATTEMPT: Duration = Duration::from_secs(10);
const AT_START: Duration = Duration::from_millis(10);
const AFTER_LOSS: Duration = Duration::from_millis(50);
/// How long a call waits for the connection to come back.
pub(super) const RECONNECT: Duration = Duration::from_secs(2);

/// There is no connection to libvirt's daemon.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The daemon is not there, or refuses.
    #[error("connecting to libvirt at {uri}: {source}; is its daemon installed and running?")]
    Refused {
        /// The connection's URI.
        uri: String,
        /// libvirt's last word.
        source: libvirt::Error,
    },
    /// The attempt hung.
    #[error("connecting to libvirt at {uri}: {source}")]
    NoAnswer {
        /// The connection's URI.
        uri: String,
        /// How long it was waited for.
        source: NoAnswer,
    },
    /// Events cannot be had.
    #[error("registering for libvirt's events: {0}")]
    Events(libvirt::Error),
}

/// A connection from its making to its loss.
#[derive(Clone)]
pub(super) struct Session {
    /// Counts the connections made.
    pub(super) generation: u64,
    /// libvirt.
    pub(super) hypervisor: Arc<dyn HypervisorConnection>,
}

/// The current connection, which is replaced after a loss.
pub struct Connection {
    connect: Connect,
    uri: String,
    current: watch::Sender<Session>,
    stop: CancellationToken,
}

impl Connection {
    /// Connects; retries for `timeout` while the daemon starts.
    pub async fn open(
        uri: &str,
        connect: Connect,
        timeout: Duration,
    ) -> Result<Arc<Connection>, ConnectionError> {
        let give_up = Instant::now() + timeout;
        let hypervisor = loop {
            match attempt(uri, &connect).await {
                Ok(hypervisor) => break hypervisor,
                Err(error) if Instant::now() >= give_up => return Err(error),
                Err(_) => tokio::time::sleep(AT_START).await,
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

    /// The current connection; waits a moment for a lost connection to be restored.
    pub(super) async fn session(&self) -> Session {
        let current = self.current();
        if current.hypervisor.is_alive() {
            return current;
        }
        let mut sessions = self.current.subscribe();
        let back = sessions.wait_for(|session| session.hypervisor.is_alive());
        // If there is none, the call itself fails with the reason.
        let _ = tokio::time::timeout(RECONNECT, back).await.is_ok();
        self.current()
    }

    /// The current session.
    pub(super) fn generation(&self) -> u64 {
        self.current.borrow().generation
    }

    fn current(&self) -> Session {
        self.current.borrow().clone()
    }

    /// Opens further connections to the same daemon.
    pub fn connect(&self) -> Connect {
        Arc::clone(&self.connect)
    }

    /// Starts delivering events to `handler`, and connects again whenever the connection is lost.
    pub async fn monitor(
        self: &Arc<Self>,
        handler: impl Fn(ConnectionEvent) + Send + Sync + 'static,
    ) -> Result<(), ConnectionError> {
        let (lost, losses) = mpsc::unbounded_channel();
        let reconnector = Reconnector {
            connection: Arc::clone(self),
            handler: Arc::new(handler),
            lost,
        };
        let subscription = reconnector.subscribe(self.current()).await?;
        let reconnecting = self
            .stop
            .clone()
            .run_until_cancelled_owned(reconnector.keep(subscription, losses));
        tokio::spawn(reconnecting);
        Ok(())
    }

    /// Delivers no more events and does not connect again.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

async fn attempt(
    uri: &str,
    connect: &Connect,
) -> Result<Arc<dyn HypervisorConnection>, ConnectionError> {
    let connect = Arc::clone(connect);
    let connected = blocking::CONNECTING.call("connecting to libvirt", ATTEMPT, move || connect());
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

struct Reconnector {
    connection: Arc<Connection>,
    handler: ConnectionEventHandler,
    /// Receives the generation of each session that is lost.
    lost: mpsc::UnboundedSender<u64>,
}

impl Reconnector {
    async fn keep(self, mut subscription: Subscription, mut losses: mpsc::UnboundedReceiver<u64>) {
        while let Some(generation) = losses.recv().await {
            // Of a session that was replaced already.
            if generation < self.connection.generation() {
                continue;
            }
            tracing::warn!(
                uri = self.connection.uri,
                "lost the connection to libvirt, connecting again"
            );
            let new = self.reconnect().await;
            // Ending the old subscription may talk to the daemon that is gone.
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
            tokio::time::sleep(AFTER_LOSS).await;
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

    async fn subscribe(&self, session: Session) -> Result<Subscription, ConnectionError> {
        let Session {
            generation,
            hypervisor,
        } = session;
        let (handler, lost) = (Arc::clone(&self.handler), self.lost.clone());
        let forward: EventHandler = Box::new(move |event| match event {
            // Fails only when the task that reconnects is gone.
            Event::ConnectionClosed { .. } => drop(lost.send(generation)),
            event => handler(ConnectionEvent::Libvirt(event)),
        });
        let subscribed = blocking::call("registering for libvirt's events", ATTEMPT, move || {
            hypervisor.subscribe(forward)
        });
        match subscribed.await {
            Ok(result) => result.map_err(ConnectionError::Events),
            Err(source) => Err(ConnectionError::NoAnswer {
                uri: self.connection.uri.clone(),
                source,
            }),
        }
    }
}
