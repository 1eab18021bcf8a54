//! A server of gRPC on one listener.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::stream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::Server;
use tonic::transport::server::Router;
use tower::layer::util::{Identity, Stack};

use crate::call_memory::CallMemoryLayer;
use crate::connection_table::{LogRate, OpenConnections};
use crate::guarded_stream::GuardedStream;
use crate::http2_authority_filter::AuthorityFilterStream;
use crate::limits::{
    ACCEPT_RETRY_DELAY, ANSWER_FLUSH_TIME, CONNECTION_WINDOW_BYTES, GrpcLimits, HEADER_LIST_BYTES,
    KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, PENDING_RESETS, STREAM_WINDOW_BYTES, TASK_END_TIME,
};

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

/// A [`Server`] whose calls are counted.
pub type CountingServer = Server<Stack<CallMemoryLayer, Identity>>;

/// A [`CountingServer`] with services.
pub type CountingRouter = Router<Stack<CallMemoryLayer, Identity>>;

/// A server whose services have no streams. Dropping it closes its connections.
pub struct GrpcServer {
    connections: OpenConnections,
    stop: CancellationToken,
    task: AbortOnDropHandle<Result<(), tonic::transport::Error>>,
}

impl GrpcServer {
    /// Serves what `add_services` adds to the server. Needs a tokio runtime.
    pub fn start<L>(
        listener: L,
        limits: GrpcLimits,
        add_services: impl FnOnce(&mut CountingServer) -> CountingRouter,
    ) -> GrpcServer
    where
        L: Accept,
        L::Connection: AsyncRead + AsyncWrite + Unpin,
    {
        let connections = OpenConnections::new(limits.listener);
        let stop = CancellationToken::new();
        let mut server = http2_server(limits.calls).layer(CallMemoryLayer {
            message_bytes: limits.message_bytes,
        });
        let clients = stream::unfold(
            (
                Acceptor::new(listener, limits.listener.what),
                connections.clone(),
            ),
            async |(mut acceptor, connections)| {
                let connection = acceptor.next().await;
                let connection = GuardedStream::new(connection, connections.admit());
                let connection = AuthorityFilterStream::new(connection);
                Some((Ok::<_, io::Error>(connection), (acceptor, connections)))
            },
        );
        let router = add_services(&mut server);
        let serving = router.serve_with_incoming_shutdown(clients, stop.clone().cancelled_owned());
        GrpcServer {
            connections,
            stop,
            task: AbortOnDropHandle::new(tokio::spawn(serving)),
        }
    }

    /// Waits until the server ends by itself, which only a failure does, and returns its reason.
    pub async fn failure(&mut self) -> String {
        match (&mut self.task).await {
            Ok(Ok(())) => "it returned".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Stops listening and taking calls. Running calls have the time `running`, and clients [`ANSWER_FLUSH_TIME`] after
    /// that to read their answers; then all connections are closed. A call whose request is not complete does not run.
    pub async fn stop(self, running: Duration) {
        if self.task.is_finished() {
            return self.connections.close_all();
        }
        self.stop.cancel();
        let what = self.connections.what();
        let calls = timeout(running, self.connections.wait_for_running_calls());
        if calls.await.is_err() {
            tracing::warn!(
                socket = what,
                ?running,
                "calls were still running at the end"
            );
        }
        // An error means that clients keep their connections open.
        let _ = timeout(ANSWER_FLUSH_TIME, self.connections.wait_for_end()).await;
        self.connections.close_all();
        // Without an answer in time, the task is aborted.
        let error = match timeout(TASK_END_TIME, self.task).await {
            Ok(Ok(Ok(()))) | Err(_) => return,
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(error)) => error.to_string(),
        };
        tracing::error!(socket = what, reason = error, "the server failed");
    }
}

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
