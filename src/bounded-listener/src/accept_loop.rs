//! Accepts connections, whatever happens to single ones.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::limits::ACCEPT_RETRY_DELAY;
use crate::log_rate::LogRate;

/// A listening socket.
pub trait Accept: Send + Sync + 'static {
    /// Its connections.
    type Connection: Send + 'static;

    /// Polls for the next connection.
    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Self::Connection>>;
}

impl Accept for UnixListener {
    type Connection = UnixStream;

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
        let accepted = UnixListener::poll_accept(self, context);
        accepted.map_ok(|(connection, _)| connection)
    }
}

impl Accept for TcpListener {
    type Connection = TcpStream;

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        let accepted = TcpListener::poll_accept(self, context);
        accepted.map_ok(|(connection, _)| connection)
    }
}

/// Accepts the connections of a listener.
pub(crate) struct Acceptor<L> {
    listener: L,
    what: &'static str,
    /// Lasts beyond a connection: with too many open files, some are accepted in between.
    errors: LogRate,
}

impl<L: Accept> Acceptor<L> {
    pub(crate) fn new(listener: L, what: &'static str) -> Acceptor<L> {
        Acceptor {
            listener,
            what,
            errors: LogRate::default(),
        }
    }

    /// Accepts the next connection. After an error, such as too many open files, accepting is tried again.
    pub(crate) async fn next(&mut self) -> L::Connection {
        loop {
            match poll_fn(|context| self.listener.poll_accept(context)).await {
                Ok(connection) => return connection,
                Err(error) => {
                    if self.errors.admit(Instant::now()) {
                        tracing::warn!(reason = %error, socket = self.what, "connections cannot be accepted");
                    }
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }
}
