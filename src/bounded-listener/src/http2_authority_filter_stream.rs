//! A client's connection with the `:authority` of its requests replaced.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use crate::guarded_stream::GuardedStream;
use crate::http2_authority_filter::AuthorityFilter;
use crate::open_connections::ConnectionHandle;

/// How many bytes are read from the client at once.
const READ_BUFFER_BYTES: usize = 16 * 1024;

/// A client's connection, whose input goes through an [`AuthorityFilter`].
#[derive(Debug)]
pub(crate) struct AuthorityFilterStream<S> {
    stream: GuardedStream<S>,
    filter: AuthorityFilter,
    /// The filter's output.
    filtered: Vec<u8>,
    /// How much of `filtered` was consumed.
    consumed: usize,
}

impl<S> AuthorityFilterStream<S> {
    pub(crate) fn new(stream: GuardedStream<S>) -> AuthorityFilterStream<S> {
        AuthorityFilterStream {
            stream,
            filter: AuthorityFilter::default(),
            filtered: Vec::new(),
            consumed: 0,
        }
    }

    /// Copies filtered bytes to `buffer`; false when there are none.
    fn copy_filtered(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let bytes = self.filtered.get(self.consumed..).unwrap_or_default();
        let count = bytes.len().min(buffer.remaining());
        buffer.put_slice(bytes.get(..count).unwrap_or_default());
        self.consumed += count;
        if self.consumed == self.filtered.len() {
            self.filtered.clear();
            self.consumed = 0;
        }
        count > 0
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AuthorityFilterStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while buffer.remaining() > 0 && !this.copy_filtered(buffer) {
            let mut bytes = [0; READ_BUFFER_BYTES];
            let mut input = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut input))?;
            if input.filled().is_empty() {
                break;
            }
            this.filter.feed(input.filled(), &mut this.filtered);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for AuthorityFilterStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

impl<S> Connected for AuthorityFilterStream<S> {
    type ConnectInfo = ConnectionHandle;

    fn connect_info(&self) -> ConnectionHandle {
        self.stream.connect_info()
    }
}
