//! Accepts connections, whatever happens to single ones.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::limits::{ACCEPT_RETRY_DELAY, LOG_INTERVAL};

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

/// Accepts the next connection. After an error, such as too many open files, accepting is tried again; the error is logged
/// once in [`LOG_INTERVAL`].
pub(crate) async fn accept<L: Accept>(listener: &mut L, what: &'static str) -> L::Connection {
    let mut logged_at: Option<Instant> = None;
    loop {
        match poll_fn(|context| listener.poll_accept(context)).await {
            Ok(connection) => return connection,
            Err(error) => {
                if logged_at.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
                    logged_at = Some(Instant::now());
                    tracing::warn!(reason = %error, socket = what, "connections cannot be accepted");
                }
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}
