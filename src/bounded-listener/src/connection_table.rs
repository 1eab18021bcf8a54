//! Which connections are open, what they hold, and which one is closed when that is too much. Pure.

use std::collections::BTreeMap;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

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
    closed: u64,
    has_ended: bool,
}

#[derive(Debug)]
struct OpenConnection {
    idle_since: Instant,
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
            closed: 0,
            has_ended: false,
        }
    }

    /// Adds a connection. Closes others if there are too many. The token is cancelled when this one is closed.
    pub(crate) fn admit(&mut self, now: Instant) -> (Id, CancellationToken) {
        let (id, close) = (self.next, CancellationToken::new());
        self.next += 1;
        if self.has_ended {
            close.cancel();
            return (id, close);
        }
        let connection = OpenConnection {
            idle_since: now,
            running: 0,
            held_bytes: 0,
            close: close.clone(),
        };
        self.open.insert(id, connection);
        while self.open.len() > self.limits.connections && self.close_idle_longest(id) {}
        (id, close)
    }

    /// Removes a connection that has ended.
    pub(crate) fn remove(&mut self, id: Id) {
        if let Some(connection) = self.open.remove(&id) {
            self.held_bytes -= connection.held_bytes;
        }
    }

    /// Adds to the bytes that a connection's calls hold. Closes other connections if all together hold too much.
    pub(crate) fn hold(&mut self, id: Id, bytes: usize, now: Instant) -> Result<(), HoldError> {
        let connection = self.open.get_mut(&id).ok_or(HoldError::Closed)?;
        let held_bytes = connection.held_bytes.saturating_add(bytes);
        if held_bytes > self.limits.connection_bytes {
            return Err(HoldError::ConnectionFull);
        }
        connection.held_bytes = held_bytes;
        connection.idle_since = now;
        self.held_bytes += bytes;
        while self.held_bytes > self.limits.listener_bytes && self.close_idle_longest(id) {}
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
            connection.idle_since = now;
        }
    }

    pub(crate) fn end_running(&mut self, id: Id, now: Instant) {
        if let Some(connection) = self.open.get_mut(&id) {
            connection.running = connection.running.saturating_sub(1);
            connection.idle_since = now;
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
    pub(crate) fn take_closed(&mut self) -> u64 {
        std::mem::take(&mut self.closed)
    }

    /// Whether [`ConnectionTable::take_closed`] would return more than 0.
    pub(crate) fn has_closed(&self) -> bool {
        self.closed > 0
    }

    /// Closes the connection that was idle longest, and one with a running call only if there is no other. `except` stays
    /// open: it is the one for which there must be room. False if there is nothing to close.
    fn close_idle_longest(&mut self, except: Id) -> bool {
        let others = self.open.iter().filter(|(id, _)| **id != except);
        let longest =
            others.min_by_key(|(_, connection)| (connection.running > 0, connection.idle_since));
        let Some(id) = longest.map(|(id, _)| *id) else {
            return false;
        };
        if let Some(connection) = self.open.remove(&id) {
            connection.close.cancel();
            self.held_bytes -= connection.held_bytes;
            self.closed += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    const LIMITS: TableLimits = TableLimits {
        connections: 3,
        connection_bytes: 70,
        listener_bytes: 100,
    };

    /// A table and a clock that is a second later at every use.
    struct Story {
        table: ConnectionTable,
        now: Instant,
        tokens: Vec<CancellationToken>,
    }

    impl Story {
        fn new() -> Story {
            Story {
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
        let mut story = Story::new();
        let first = story.admit();
        story.admit();
        story.admit();
        story.hold(first, 1).unwrap();
        story.admit();
        assert_eq!(story.closed(), [1]);
        story.admit();
        assert_eq!(story.closed(), [1, 2]);
        assert_eq!(story.table.take_closed(), 2);
        assert_eq!(story.table.take_closed(), 0);
        // A connection that has ended leaves room.
        story.table.remove(first);
        story.admit();
        assert_eq!(story.closed(), [1, 2]);
    }

    #[test]
    fn connection_with_a_running_call_is_closed_last_and_the_newest_never() {
        let mut story = Story::new();
        let ids: Vec<_> = (0..3).map(|_| story.admit()).collect();
        story.run(ids[0]);
        story.admit();
        assert_eq!(story.closed(), [1]);
        story.run(ids[2]);
        story.run(3);
        // All have running calls: the newest connection is not refused.
        story.admit();
        assert_eq!(story.closed(), [0, 1]);
        let now = story.now();
        story.table.end_running(3, now);
        story.run(4);
        story.admit();
        assert_eq!(story.closed(), [0, 1, 3]);
    }

    #[test]
    fn calls_of_one_connection_hold_a_limited_number_of_bytes() {
        let mut story = Story::new();
        let id = story.admit();
        story.hold(id, 70).unwrap();
        assert_eq!(story.hold(id, 1), Err(HoldError::ConnectionFull));
        assert_eq!(story.hold(id, usize::MAX), Err(HoldError::ConnectionFull));
        story.table.release(id, 30);
        story.hold(id, 30).unwrap();
        assert_eq!(story.closed(), [0; 0]);
    }

    #[test]
    fn too_many_bytes_of_all_calls_close_what_was_idle_longest() {
        let mut story = Story::new();
        let ids: Vec<_> = (0..3).map(|_| story.admit()).collect();
        story.hold(ids[1], 40).unwrap();
        story.hold(ids[0], 40).unwrap();
        story.hold(ids[2], 20).unwrap();
        assert_eq!(story.closed(), [0; 0]);
        story.hold(ids[2], 1).unwrap();
        assert_eq!(story.closed(), [1]);
        assert_eq!(story.hold(ids[1], 1), Err(HoldError::Closed));
        story.table.release(ids[1], 40);
        story.table.remove(ids[1]);
        // The bytes of the closed connection are free again.
        story.hold(ids[2], 39).unwrap();
        assert_eq!(story.closed(), [1]);
        story.hold(ids[2], 1).unwrap();
        assert_eq!(story.closed(), [0, 1]);
    }

    #[test]
    fn all_are_closed_at_the_end_and_later_ones_too() {
        let mut story = Story::new();
        let id = story.admit();
        story.admit();
        story.run(id);
        assert!(story.table.is_running());
        story.table.close_all();
        assert_eq!(story.closed(), [0, 1]);
        story.admit();
        assert_eq!(story.closed(), [0, 1, 2]);
        assert!(story.table.is_empty() && !story.table.is_running());
    }
}
