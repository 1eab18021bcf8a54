//! The connection of a client of the command server.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::{Connected, UdsConnectInfo};

use super::invalid_authority::AuthorityFilter;

const READ: usize = 16 * 1024;

/// A client's connection, its requests with another `:authority`.
#[derive(Debug)]
pub(super) struct ClientStream {
    stream: UnixStream,
    filter: AuthorityFilter,
    ready: Vec<u8>,
    read: usize,
}

impl ClientStream {
    pub(super) fn new(stream: UnixStream) -> ClientStream {
        ClientStream {
            stream,
            filter: AuthorityFilter::default(),
            ready: Vec::new(),
            read: 0,
        }
    }

    /// Hands on what is ready; false when there is nothing.
    fn hand_on(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let bytes = self.ready.get(self.read..).unwrap_or_default();
        let count = bytes.len().min(buffer.remaining());
        buffer.put_slice(bytes.get(..count).unwrap_or_default());
        self.read += count;
        if self.read == self.ready.len() {
            self.ready.clear();
            self.read = 0;
        }
        count > 0
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while buffer.remaining() > 0 && !this.hand_on(buffer) {
            let mut bytes = [0; READ];
            let mut input = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut input))?;
            if input.filled().is_empty() {
                break;
            }
            this.filter.feed(input.filled(), &mut this.ready);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientStream {
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

impl Connected for ClientStream {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> UdsConnectInfo {
        self.stream.connect_info()
    }
}
