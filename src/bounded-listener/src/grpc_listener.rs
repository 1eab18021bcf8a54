//! Listeners that serve gRPC.

use std::io;
use std::time::Duration;

use futures_util::{Stream, stream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tonic::transport::Server;
use tower::layer::util::{Identity, Stack};

use crate::accept_loop::{Accept, accept};
use crate::call_memory::CallMemoryLayer;
use crate::guarded_stream::GuardedStream;
use crate::limits::{
    ANSWER_FLUSH_TIME, CONNECTION_WINDOW_BYTES, HEADER_LIST_BYTES, KEEPALIVE_INTERVAL,
    KEEPALIVE_TIMEOUT, Limits, PENDING_RESETS, STREAM_WINDOW_BYTES,
};
use crate::open_connections::OpenConnections;

/// A gRPC server of HTTP/2 with limits, for at most `calls` open calls of a connection.
pub fn http2_server(calls: u32) -> Server {
    Server::builder()
        .max_concurrent_streams(calls)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .http2_max_header_list_size(HEADER_LIST_BYTES)
        .http2_max_pending_accept_reset_streams(Some(PENDING_RESETS))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
}

/// The limits of a gRPC listener, whose services have no streams. It serves with [`GrpcListener::server`] what
/// [`GrpcListener::incoming`] yields, and ends with [`GrpcListener::drain`].
#[derive(Clone)]
pub struct GrpcListener {
    connections: OpenConnections,
    message_bytes: usize,
}

impl GrpcListener {
    /// `message_bytes` is the maximum size of a message that any of the services decodes.
    #[must_use]
    pub fn new(limits: Limits, message_bytes: usize) -> GrpcListener {
        GrpcListener {
            connections: OpenConnections::new(limits),
            message_bytes,
        }
    }

    /// The server to which the services are added.
    #[must_use]
    pub fn server(&self) -> Server<Stack<CallMemoryLayer, Identity>> {
        http2_server(self.connections.calls()).layer(CallMemoryLayer {
            message_bytes: self.message_bytes,
        })
    }

    /// The connections of a listener, which is closed when this is dropped.
    pub fn incoming<L>(
        &self,
        listener: L,
    ) -> impl Stream<Item = io::Result<GuardedStream<L::Connection>>> + use<L>
    where
        L: Accept,
        L::Connection: AsyncRead + AsyncWrite + Unpin,
    {
        let connections = self.connections.clone();
        stream::unfold(
            (listener, connections),
            async |(mut listener, connections)| {
                let connection = accept(&mut listener, connections.what()).await;
                let connection = GuardedStream::new(connection, connections.admit());
                Some((Ok(connection), (listener, connections)))
            },
        )
    }

    /// Waits until running calls have ended, at most for `running`, and until clients have read their answers; then closes
    /// all connections. A call whose request is not complete does not run. The server must have begun to shut down.
    pub async fn drain(&self, running: Duration) {
        if timeout(running, self.connections.no_call_runs())
            .await
            .is_err()
        {
            tracing::warn!(
                socket = self.connections.what(),
                ?running,
                "calls were still running at the end"
            );
        }
        // An error means that clients keep their connections open.
        let _ = timeout(ANSWER_FLUSH_TIME, self.connections.all_ended()).await;
        self.connections.close_all();
    }
}
