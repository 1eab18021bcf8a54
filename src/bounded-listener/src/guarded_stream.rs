//! A connection of a gRPC listener: closed from outside, and by itself when its client does nothing that it must do.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::transport::server::Connected;

use crate::connection_table::{ConnectionGuard, ConnectionHandle};
use crate::limits::{PREFACE_TIMEOUT, STALLED_WRITE_TIMEOUT};

/// What a client of HTTP/2 sends first (RFC 9113, section 3.4).
const PREFACE_BYTES: usize = 24;

/// A connection that ends with an error when the listener closes it, when the client does not send HTTP/2's preface in
/// time, or when the client reads nothing for too long. hyper pings the client, but an end by hyper itself waits for a
/// client that does not read.
pub(crate) struct GuardedStream<S> {
    stream: S,
    guard: ConnectionGuard,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Until the preface is read: what is missing of it, and its deadline.
    preface: Option<(usize, Pin<Box<Sleep>>)>,
    stalled_write_timeout: Duration,
    /// The deadline of a write that waits for the client.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> GuardedStream<S> {
    pub(crate) fn new(stream: S, guard: ConnectionGuard) -> GuardedStream<S> {
        GuardedStream::with_timeouts(stream, guard, PREFACE_TIMEOUT, STALLED_WRITE_TIMEOUT)
    }

    fn with_timeouts(
        stream: S,
        guard: ConnectionGuard,
        preface_timeout: Duration,
        stalled_write_timeout: Duration,
    ) -> GuardedStream<S> {
        let closed = guard.handle().closed().clone().cancelled_owned();
        GuardedStream {
            stream,
            guard,
            closed: Box::pin(closed),
            preface: Some((PREFACE_BYTES, Box::pin(sleep(preface_timeout)))),
            stalled_write_timeout,
            stalled: None,
        }
    }

    fn check_open(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.closed.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the listener has closed the connection",
            )),
            Poll::Pending => Ok(()),
        }
    }

    /// Passes the result of a write on, or an error if writes have waited too long.
    fn with_write_deadline<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let deadline = self
            .stalled
            .get_or_insert_with(|| Box::pin(sleep(self.stalled_write_timeout)));
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(timed_out("the client reads nothing"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn timed_out(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl<S: AsyncRead + Unpin> AsyncRead for GuardedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check_open(context)?;
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if let Some((missing, deadline)) = &mut this.preface {
            *missing = missing.saturating_sub(buffer.filled().len() - before);
            if *missing == 0 {
                this.preface = None;
            } else if read.is_pending() && deadline.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(timed_out("the client sends no HTTP/2")));
            }
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GuardedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.check_open(context)?;
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.with_write_deadline(written, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.check_open(context)?;
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.with_write_deadline(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check_open(context)?;
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

impl<S> fmt::Debug for GuardedStream<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.handle().fmt(formatter)
    }
}

impl<S> Connected for GuardedStream<S> {
    type ConnectInfo = ConnectionHandle;

    fn connect_info(&self) -> ConnectionHandle {
        self.guard.handle().clone()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::connection_table::OpenConnections;
    use crate::limits::COMMAND_SOCKET;

    const TIMEOUT: Duration = Duration::from_secs(1);

    fn connection() -> (
        GuardedStream<tokio::io::DuplexStream>,
        tokio::io::DuplexStream,
    ) {
        let connections = OpenConnections::new(COMMAND_SOCKET.listener);
        let (server, client) = tokio::io::duplex(64);
        let server = GuardedStream::with_timeouts(server, connections.admit(), TIMEOUT, TIMEOUT);
        (server, client)
    }

    #[tokio::test]
    async fn client_without_a_preface_is_disconnected() {
        let (mut server, mut client) = connection();
        client.write_all(&[b'x'; 23]).await.unwrap();
        let mut bytes = [0; 64];
        assert_eq!(server.read(&mut bytes).await.unwrap(), 23);
        let error = server.read(&mut bytes).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    }

    #[tokio::test]
    async fn preface_that_has_arrived_counts_although_it_is_read_late() {
        let (mut server, mut client) = connection();
        client.write_all(&[b'x'; 24]).await.unwrap();
        sleep(TIMEOUT + TIMEOUT / 4).await;
        let mut bytes = [0; 64];
        assert_eq!(server.read(&mut bytes).await.unwrap(), 24);
    }

    #[tokio::test]
    async fn client_with_a_preface_may_be_silent() {
        let (mut server, mut client) = connection();
        client.write_all(&[b'x'; 24]).await.unwrap();
        let mut bytes = [0; 64];
        assert_eq!(server.read(&mut bytes).await.unwrap(), 24);
        let read = tokio::time::timeout(3 * TIMEOUT, server.read(&mut bytes)).await;
        assert!(read.is_err(), "{read:?}");
    }

    #[tokio::test]
    async fn client_that_reads_nothing_is_disconnected_and_a_slow_one_is_not() {
        let (mut server, mut client) = connection();
        let writing = tokio::spawn(async move { server.write_all(&[0; 1024]).await });
        let mut bytes = [0; 64];
        for _ in 0..6 {
            sleep(TIMEOUT / 4).await;
            client.read_exact(&mut bytes).await.unwrap();
        }
        let error = writing.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    }

    #[tokio::test]
    async fn closed_connection_ends_whatever_it_waits_for() {
        let (mut server, _client) = connection();
        let handle = server.connect_info();
        let mut bytes = [0; 64];
        let reading = async { server.read(&mut bytes).await.unwrap_err() };
        let closing = async { handle.closed().cancel() };
        let (error, ()) = tokio::join!(reading, closing);
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted, "{error}");
        let error = server.write(b"x").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted, "{error}");
    }
}
