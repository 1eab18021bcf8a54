//! The connection to libvirt's daemon, kept up.
//!
//! ```text
//!   [connected] ──closed──▶ [lost] ──every 250 ms──▶ [connected], callbacks registered anew
//! ```
//! While it is lost, calls on the old connection fail at once; nobody waits for the new one.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use libvirt::{Event, EventSink, Hypervisor, Subscription};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::blocking::{self, Unanswered};
use crate::notify::Fact;

/// Makes a connection; blocking.
pub type Connect = Arc<dyn Fn() -> libvirt::Result<Arc<dyn Hypervisor>> + Send + Sync>;

/// Longest single attempt; libvirt itself may wait for a daemon to start.
const ATTEMPT: Duration = Duration::from_secs(10);
const AT_START: Duration = Duration::from_millis(10);
const AFTER_LOSS: Duration = Duration::from_millis(250);

/// There is no connection to be had.
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
    Unanswered {
        /// The connection's URI.
        uri: String,
        /// How long it was waited for.
        source: Unanswered,
    },
    /// Events cannot be had.
    #[error("registering for libvirt's events: {0}")]
    Events(libvirt::Error),
}

/// The connection, whichever it is at the moment.
pub struct Connection {
    connect: Connect,
    uri: String,
    current: RwLock<Arc<dyn Hypervisor>>,
    stop: CancellationToken,
}

impl Connection {
    /// Connects, trying again while the daemon comes up, for `patience` altogether.
    pub async fn open(
        uri: &str,
        connect: Connect,
        patience: Duration,
    ) -> Result<Arc<Connection>, ConnectionError> {
        let give_up = Instant::now() + patience;
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
            current: RwLock::new(hypervisor),
            stop: CancellationToken::new(),
        }))
    }

    /// The connection to call.
    pub fn hypervisor(&self) -> Arc<dyn Hypervisor> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts delivering events to `facts`, and connects again whenever the connection is lost.
    pub async fn monitor(
        self: &Arc<Self>,
        facts: mpsc::UnboundedSender<Fact>,
    ) -> Result<(), ConnectionError> {
        let (lost, losses) = mpsc::unbounded_channel();
        let keeper = Keeper {
            connection: Arc::clone(self),
            facts,
            lost,
        };
        let subscription = keeper.subscribe(self.hypervisor()).await?;
        let kept = self
            .stop
            .clone()
            .run_until_cancelled_owned(keeper.keep(subscription, losses));
        tokio::spawn(kept);
        Ok(())
    }

    /// Delivers no more events and does not connect again.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

async fn attempt(uri: &str, connect: &Connect) -> Result<Arc<dyn Hypervisor>, ConnectionError> {
    let connect = Arc::clone(connect);
    match blocking::call("connecting to libvirt", ATTEMPT, move || connect()).await {
        Ok(Ok(hypervisor)) => Ok(hypervisor),
        Ok(Err(source)) => Err(ConnectionError::Refused {
            uri: uri.to_owned(),
            source,
        }),
        Err(source) => Err(ConnectionError::Unanswered {
            uri: uri.to_owned(),
            source,
        }),
    }
}

struct Keeper {
    connection: Arc<Connection>,
    facts: mpsc::UnboundedSender<Fact>,
    lost: mpsc::UnboundedSender<()>,
}

impl Keeper {
    async fn keep(self, mut subscription: Subscription, mut losses: mpsc::UnboundedReceiver<()>) {
        while losses.recv().await.is_some() {
            tracing::warn!(
                uri = self.connection.uri,
                "lost the connection to libvirt, connecting again"
            );
            let new = self.reconnect().await;
            // Ending the old subscription may talk to the daemon that is gone.
            let old = std::mem::replace(&mut subscription, new);
            tokio::task::spawn_blocking(move || drop(old));
            while losses.try_recv().is_ok() {}
            tracing::info!("connected to libvirt again, events registered anew");
            if self.facts.send(Fact::Reconnected).is_err() {
                return;
            }
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
        let subscription = match self.subscribe(Arc::clone(&hypervisor)).await {
            Ok(subscription) => subscription,
            Err(error) => {
                // Closing a connection whose daemon hangs may block.
                tokio::task::spawn_blocking(move || drop(hypervisor));
                return Err(error);
            }
        };
        let mut current = self
            .connection
            .current
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *current, hypervisor);
        drop(current);
        // Closing a connection whose daemon hangs may block.
        tokio::task::spawn_blocking(move || drop(old));
        Ok(subscription)
    }

    async fn subscribe(
        &self,
        hypervisor: Arc<dyn Hypervisor>,
    ) -> Result<Subscription, ConnectionError> {
        let (facts, lost) = (self.facts.clone(), self.lost.clone());
        let sink: EventSink = Box::new(move |event| {
            let _ = match event {
                Event::ConnectionClosed { .. } => lost.send(()).is_ok(),
                event => facts.send(Fact::Libvirt(event)).is_ok(),
            };
        });
        let subscribed = blocking::call("registering for libvirt's events", ATTEMPT, move || {
            hypervisor.subscribe(sink)
        });
        match subscribed.await {
            Ok(result) => result.map_err(ConnectionError::Events),
            Err(source) => Err(ConnectionError::Unanswered {
                uri: self.connection.uri.clone(),
                source,
            }),
        }
    }
}
