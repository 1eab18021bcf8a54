//! The open connections of a listener, shared by its accept loop, connections and calls.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::connection_table::{ConnectionTable, HoldError, Id, TableLimits};
use crate::limits::{CONNECTION_BYTES, LISTENER_BYTES, Limits};
use crate::log_rate::LogRate;

/// The open connections of one listener.
#[derive(Clone)]
pub(crate) struct OpenConnections(Arc<Shared>);

struct Shared {
    limits: Limits,
    table: Mutex<ConnectionTable>,
    log_rate: Mutex<LogRate>,
    /// Notified when a call or a connection has ended.
    ended: Notify,
}

/// An open connection. It counts until this is dropped.
pub(crate) struct ConnectionGuard(ConnectionHandle);

/// A connection of a listener, for what serves it.
#[derive(Clone)]
pub struct ConnectionHandle {
    connections: OpenConnections,
    id: Id,
    close: CancellationToken,
}

/// While this exists, the connection is not idle.
pub struct RunningGuard(ConnectionHandle);

impl OpenConnections {
    pub(crate) fn new(limits: Limits) -> OpenConnections {
        let table = ConnectionTable::new(TableLimits {
            connections: limits.connections,
            connection_bytes: CONNECTION_BYTES,
            listener_bytes: LISTENER_BYTES,
        });
        OpenConnections(Arc::new(Shared {
            limits,
            table: Mutex::new(table),
            log_rate: Mutex::default(),
            ended: Notify::new(),
        }))
    }

    /// Adds a connection that was accepted, and closes others if there are too many.
    pub(crate) fn admit(&self) -> ConnectionGuard {
        let (id, close) = self.change_table(|table| table.admit(Instant::now()));
        ConnectionGuard(ConnectionHandle {
            connections: self.clone(),
            id,
            close,
        })
    }

    pub(crate) fn what(&self) -> &'static str {
        self.0.limits.what
    }

    /// Waits until no call is worked on.
    pub(crate) async fn wait_for_running_calls(&self) {
        self.wait_until(|table| !table.is_running()).await;
    }

    /// Waits until all connections have ended.
    pub(crate) async fn wait_for_end(&self) {
        self.wait_until(ConnectionTable::is_empty).await;
    }

    pub(crate) fn close_all(&self) {
        self.table().close_all();
    }

    async fn wait_until(&self, holds: impl Fn(&ConnectionTable) -> bool) {
        loop {
            let ended = self.0.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if holds(&self.table()) {
                return;
            }
            ended.await;
        }
    }

    fn table(&self) -> MutexGuard<'_, ConnectionTable> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the table by what may close connections, and logs it if it has.
    fn change_table<T>(&self, change: impl FnOnce(&mut ConnectionTable) -> T) -> T {
        let mut table = self.table();
        let result = change(&mut table);
        let has_closed = table.has_closed_by_limits();
        drop(table);
        if has_closed {
            self.log_closed();
        }
        result
    }

    /// Logs how many connections the limits have closed. A client that opens many must not fill the log.
    fn log_closed(&self) {
        let rate = self.0.log_rate.lock();
        let mut rate = rate.unwrap_or_else(PoisonError::into_inner);
        if rate.admit(Instant::now()) {
            let closed = self.table().take_closed_by_limits();
            tracing::warn!(
                socket = self.what(),
                closed,
                connections = self.0.limits.connections,
                "clients have more connections or larger calls open than are allowed; those that were idle longest are \
                 closed, and new ones if none is idle"
            );
        }
    }
}

impl ConnectionGuard {
    pub(crate) fn handle(&self) -> &ConnectionHandle {
        &self.0
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let connections = &self.0.connections;
        connections.table().remove(self.0.id);
        connections.0.ended.notify_waiters();
    }
}

impl ConnectionHandle {
    /// Cancelled when the connection is to be closed.
    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.close
    }

    /// Marks the connection as not idle.
    #[must_use]
    pub fn running(&self) -> RunningGuard {
        let mut table = self.connections.table();
        table.begin_running(self.id, Instant::now());
        RunningGuard(self.clone())
    }

    pub(crate) fn hold(&self, bytes: usize) -> Result<(), HoldError> {
        let hold = |table: &mut ConnectionTable| table.hold(self.id, bytes, Instant::now());
        self.connections.change_table(hold)
    }

    pub(crate) fn release(&self, bytes: usize) {
        self.connections.table().release(self.id, bytes);
    }
}

impl fmt::Debug for ConnectionHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "connection {}", self.id)
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        let connections = &self.0.connections;
        connections.table().end_running(self.0.id, Instant::now());
        connections.0.ended.notify_waiters();
    }
}
