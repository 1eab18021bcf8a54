//! Which connections are open, what they hold, and which one is closed when that is too much. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::limits::{CONNECTION_BYTES, LISTENER_BYTES, LOG_INTERVAL, Limits};

/// The number of a connection.
pub(crate) type Id = u64;

/// What the table allows at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableLimits {
    pub(crate) connections: usize,
    pub(crate) connection_bytes: usize,
    pub(crate) listener_bytes: usize,
}

/// Why a call may not hold more bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldError {
    /// The open calls of the connection would hold too much.
    ConnectionFull,
    /// The open calls of all connections would hold too much, and none of the others can be closed.
    ListenerFull,
    /// The connection was closed.
    Closed,
}

/// The open connections of one listener.
#[derive(Debug)]
pub(crate) struct ConnectionTable {
    limits: TableLimits,
    next: Id,
    open: BTreeMap<Id, OpenConnection>,
    held_bytes: usize,
    closed_by_limits: u64,
    has_ended: bool,
}

#[derive(Debug)]
struct OpenConnection {
    last_activity: Instant,
    /// How many of its calls have arrived and are worked on.
    running: usize,
    held_bytes: usize,
    close: CancellationToken,
}

impl ConnectionTable {
    pub(crate) fn new(limits: TableLimits) -> ConnectionTable {
        ConnectionTable {
            limits,
            next: 0,
            open: BTreeMap::new(),
            held_bytes: 0,
            closed_by_limits: 0,
            has_ended: false,
        }
    }

    /// Adds a connection. For one too many, closes the one that was idle longest, or this one if no other is idle: a
    /// migration's data, and answers that are on their way, come before a new client. The token is cancelled when this
    /// connection is closed.
    pub(crate) fn admit(&mut self, now: Instant) -> (Id, CancellationToken) {
        let (id, close) = (self.next, CancellationToken::new());
        self.next += 1;
        let has_room = self.open.len() < self.limits.connections
            || self.close_first(|_, connection| {
                (connection.running == 0).then_some(connection.last_activity)
            });
        if self.has_ended || !has_room {
            self.closed_by_limits += u64::from(!has_room);
            close.cancel();
            return (id, close);
        }
        let connection = OpenConnection {
            last_activity: now,
            running: 0,
            held_bytes: 0,
            close: close.clone(),
        };
        self.open.insert(id, connection);
        (id, close)
    }

    /// Removes a connection that has ended.
    pub(crate) fn remove(&mut self, id: Id) {
        if let Some(connection) = self.open.remove(&id) {
            self.held_bytes -= connection.held_bytes;
        }
    }

    /// Adds to the bytes that a connection's calls hold. If all together hold too much, closes others that hold some: the
    /// one that was idle longest, or if all have running calls, the one that holds most, unless that is this one.
    pub(crate) fn hold(&mut self, id: Id, bytes: usize, now: Instant) -> Result<(), HoldError> {
        let connection = self.open.get(&id).ok_or(HoldError::Closed)?;
        let held_bytes = connection.held_bytes.saturating_add(bytes);
        if held_bytes > self.limits.connection_bytes {
            return Err(HoldError::ConnectionFull);
        }
        while self.held_bytes.saturating_add(bytes) > self.limits.listener_bytes {
            let has_closed = self.close_first(|other, connection| {
                let is_idle = connection.running == 0 && connection.held_bytes > 0;
                (other != id && is_idle).then_some(connection.last_activity)
            }) || self.close_first(|other, connection| {
                (other != id && connection.held_bytes > held_bytes)
                    .then_some(Reverse(connection.held_bytes))
            });
            if !has_closed {
                return Err(HoldError::ListenerFull);
            }
        }
        if let Some(connection) = self.open.get_mut(&id) {
            connection.held_bytes = held_bytes;
            connection.last_activity = now;
            self.held_bytes += bytes;
        }
        Ok(())
    }

    /// Takes from the bytes that a connection's calls hold.
    pub(crate) fn release(&mut self, id: Id, bytes: usize) {
        if let Some(connection) = self.open.get_mut(&id) {
            let released = bytes.min(connection.held_bytes);
            connection.held_bytes -= released;
            self.held_bytes -= released;
        }
    }

    /// Counts a call that has arrived and is worked on now.
    pub(crate) fn begin_running(&mut self, id: Id, now: Instant) {
        if let Some(connection) = self.open.get_mut(&id) {
            connection.running += 1;
            connection.last_activity = now;
        }
    }

    pub(crate) fn end_running(&mut self, id: Id, now: Instant) {
        if let Some(connection) = self.open.get_mut(&id) {
            connection.running = connection.running.saturating_sub(1);
            connection.last_activity = now;
        }
    }

    /// Whether a call of any connection is worked on.
    pub(crate) fn is_running(&self) -> bool {
        self.open.values().any(|connection| connection.running > 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Closes all connections, and those that are accepted later.
    pub(crate) fn close_all(&mut self) {
        self.has_ended = true;
        for connection in self.open.values() {
            connection.close.cancel();
        }
        self.open.clear();
        self.held_bytes = 0;
    }

    /// The number of connections that were closed because of a limit since this was last called.
    pub(crate) fn take_closed_by_limits(&mut self) -> u64 {
        std::mem::take(&mut self.closed_by_limits)
    }

    /// Whether [`ConnectionTable::take_closed_by_limits`] would return more than 0.
    pub(crate) fn has_closed_by_limits(&self) -> bool {
        self.closed_by_limits > 0
    }

    /// Closes the connection with the smallest key among those that have one. False if there is none.
    fn close_first<K: Ord>(&mut self, key: impl Fn(Id, &OpenConnection) -> Option<K>) -> bool {
        let keys = self
            .open
            .iter()
            .filter_map(|(id, connection)| Some((key(*id, connection)?, *id)));
        let Some((_, id)) = keys.min() else {
            return false;
        };
        if let Some(connection) = self.open.remove(&id) {
            connection.close.cancel();
            self.held_bytes -= connection.held_bytes;
            self.closed_by_limits += 1;
        }
        true
    }
}

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

/// When the line was logged last.
#[derive(Debug, Default)]
pub(crate) struct LogRate(Option<Instant>);

impl LogRate {
    /// Whether the line is to be logged now: once in [`LOG_INTERVAL`].
    pub(crate) fn admit(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|at| now >= at + LOG_INTERVAL);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LIMITS: TableLimits = TableLimits {
        connections: 3,
        connection_bytes: 70,
        listener_bytes: 100,
    };

    /// A table and a clock that is a second later at every use.
    struct TableWithClock {
        table: ConnectionTable,
        now: Instant,
        tokens: Vec<CancellationToken>,
    }

    impl TableWithClock {
        fn new() -> TableWithClock {
            TableWithClock {
                table: ConnectionTable::new(LIMITS),
                now: Instant::now(),
                tokens: Vec::new(),
            }
        }

        fn now(&mut self) -> Instant {
            self.now += Duration::from_secs(1);
            self.now
        }

        fn admit(&mut self) -> Id {
            let now = self.now();
            let (id, token) = self.table.admit(now);
            self.tokens.push(token);
            id
        }

        fn hold(&mut self, id: Id, bytes: usize) -> Result<(), HoldError> {
            let now = self.now();
            self.table.hold(id, bytes, now)
        }

        fn run(&mut self, id: Id) {
            let now = self.now();
            self.table.begin_running(id, now);
        }

        fn closed(&self) -> Vec<usize> {
            let tokens = self.tokens.iter().enumerate();
            let closed = tokens.filter(|(_, token)| token.is_cancelled());
            closed.map(|(index, _)| index).collect()
        }
    }

    #[test]
    fn one_connection_too_many_closes_the_one_that_was_idle_longest() {
        let mut fixture = TableWithClock::new();
        let first = fixture.admit();
        fixture.admit();
        fixture.admit();
        fixture.hold(first, 1).unwrap();
        fixture.admit();
        assert_eq!(fixture.closed(), [1]);
        fixture.admit();
        assert_eq!(fixture.closed(), [1, 2]);
        assert_eq!(fixture.table.take_closed_by_limits(), 2);
        assert_eq!(fixture.table.take_closed_by_limits(), 0);
        // A connection that has ended leaves room.
        fixture.table.remove(first);
        fixture.admit();
        assert_eq!(fixture.closed(), [1, 2]);
    }

    #[test]
    fn connection_with_a_running_call_is_not_closed_for_a_new_one() {
        let mut fixture = TableWithClock::new();
        let ids: Vec<_> = (0..3).map(|_| fixture.admit()).collect();
        fixture.run(ids[0]);
        let third = fixture.admit();
        assert_eq!(fixture.closed(), [1]);
        fixture.run(ids[2]);
        fixture.run(third);
        // All have running calls: the new connection is refused, and counted.
        fixture.admit();
        assert_eq!(fixture.closed(), [1, 4]);
        assert_eq!(fixture.table.take_closed_by_limits(), 2);
        let now = fixture.now();
        fixture.table.end_running(third, now);
        fixture.admit();
        assert_eq!(fixture.closed(), [1, 3, 4]);
    }

    #[test]
    fn calls_of_one_connection_hold_a_limited_number_of_bytes() {
        let mut fixture = TableWithClock::new();
        let id = fixture.admit();
        fixture.hold(id, 70).unwrap();
        assert_eq!(fixture.hold(id, 1), Err(HoldError::ConnectionFull));
        assert_eq!(fixture.hold(id, usize::MAX), Err(HoldError::ConnectionFull));
        fixture.table.release(id, 30);
        fixture.hold(id, 30).unwrap();
        assert_eq!(fixture.closed(), [0; 0]);
    }

    #[test]
    fn too_many_bytes_of_all_calls_close_what_holds_some_and_was_idle_longest() {
        let mut fixture = TableWithClock::new();
        let without_calls = fixture.admit();
        let (first, second) = (fixture.admit(), fixture.admit());
        fixture.hold(first, 40).unwrap();
        fixture.hold(second, 60).unwrap();
        assert_eq!(fixture.closed(), [0; 0]);
        fixture.hold(second, 1).unwrap();
        assert_eq!(fixture.closed(), [1]);
        assert_eq!(fixture.hold(first, 1), Err(HoldError::Closed));
        fixture.table.release(first, 40);
        fixture.table.remove(first);
        // The bytes of the closed connection are free again.
        fixture.hold(without_calls, 39).unwrap();
        assert_eq!(fixture.closed(), [1]);
        fixture.hold(without_calls, 1).unwrap();
        assert_eq!(fixture.closed(), [1, 2]);
    }

    #[test]
    fn among_running_calls_the_largest_make_room_for_smaller_ones_only() {
        let mut fixture = TableWithClock::new();
        let ids: Vec<_> = (0..3).map(|_| fixture.admit()).collect();
        fixture.hold(ids[0], 30).unwrap();
        fixture.hold(ids[1], 60).unwrap();
        fixture.run(ids[0]);
        fixture.run(ids[1]);
        assert_eq!(fixture.hold(ids[2], 60), Err(HoldError::ListenerFull));
        assert_eq!(fixture.closed(), [0; 0]);
        fixture.hold(ids[2], 20).unwrap();
        assert_eq!(fixture.closed(), [1]);
    }

    #[test]
    fn all_are_closed_at_the_end_and_later_ones_too() {
        let mut fixture = TableWithClock::new();
        let id = fixture.admit();
        fixture.admit();
        fixture.run(id);
        assert!(fixture.table.is_running());
        fixture.table.close_all();
        assert_eq!(fixture.closed(), [0, 1]);
        fixture.admit();
        assert_eq!(fixture.closed(), [0, 1, 2]);
        assert!(fixture.table.is_empty() && !fixture.table.is_running());
    }

    #[test]
    fn line_is_logged_once_in_the_interval() {
        let (mut rate, begin) = (LogRate::default(), Instant::now());
        assert!(rate.admit(begin));
        assert!(!rate.admit(begin + LOG_INTERVAL / 2));
        assert!(rate.admit(begin + LOG_INTERVAL));
        assert!(!rate.admit(begin + LOG_INTERVAL * 3 / 2));
    }
}
