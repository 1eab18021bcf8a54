//! Replaces the `:authority` of HTTP/2 requests, which need not be a host name.
//!
//! On a Unix socket `:authority` has no meaning, and gRPC clients send the path of the socket there, plain or
//! percent-encoded. `h2` resets such streams with PROTOCOL_ERROR and has no option to accept them, so every literal
//! `:authority` is replaced before `h2` reads it.
//!
//! In HPACK both sides keep a table of headers. A literal is replaced by one that is not longer and has the same
//! encoding. The receiver's table then has the same entries at the same indexes, and the replaced entry is only
//! smaller, so the receiver never evicts an entry that the sender still refers to.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use crate::connection_table::ConnectionHandle;
use crate::guarded_stream::GuardedStream;

/// Size of the client's connection preface, before its first frame.
const PREFACE_BYTES: usize = 24;
const FRAME_HEADER_BYTES: usize = 9;
/// Maximum size of a frame. h2 itself returns an error for a larger frame.
const MAX_FRAME_BYTES: usize = 16 * 1024;
const FRAME_TYPE_HEADERS: u8 = 1;
const FLAG_END_HEADERS: u8 = 0x4;
const FLAG_PADDED: u8 = 0x8;
const FLAG_PRIORITY: u8 = 0x20;
/// The index of `:authority` in HPACK's static table.
const AUTHORITY_INDEX: usize = 1;
const AUTHORITY_NAME: &[u8] = b":authority";
/// The encoded value that h2 gets: a string of one byte, not Huffman-coded.
const REPLACEMENT: [u8; 2] = [1, b'-'];

/// Filters the bytes of one connection before h2 reads them.
#[derive(Debug)]
pub(crate) struct AuthorityFilter {
    /// Number of bytes to pass unchanged: the preface, or the payload of a frame other than HEADERS.
    skip: usize,
    /// The bytes of an incomplete frame.
    pending: Vec<u8>,
}

impl Default for AuthorityFilter {
    fn default() -> Self {
        AuthorityFilter {
            skip: PREFACE_BYTES,
            pending: Vec::new(),
        }
    }
}

impl AuthorityFilter {
    /// Takes more bytes, and appends the filtered ones to `output`.
    pub(crate) fn feed(&mut self, mut input: &[u8], output: &mut Vec<u8>) {
        while !input.is_empty() {
            if self.skip > 0 {
                let (passed, rest) = input.split_at(self.skip.min(input.len()));
                output.extend_from_slice(passed);
                self.skip -= passed.len();
                input = rest;
                continue;
            }
            let missing = self.bytes_needed().saturating_sub(self.pending.len());
            let (consumed, rest) = input.split_at(missing.min(input.len()));
            self.pending.extend_from_slice(consumed);
            input = rest;
            self.finish_frame(output);
        }
    }

    /// How many bytes of the current frame are needed for the next step.
    fn bytes_needed(&self) -> usize {
        match FrameHeader::parse(&self.pending) {
            Some(header) if header.is_complete_block() => FRAME_HEADER_BYTES + header.length,
            _ => FRAME_HEADER_BYTES,
        }
    }

    fn finish_frame(&mut self, output: &mut Vec<u8>) {
        let Some(header) = FrameHeader::parse(&self.pending) else {
            return;
        };
        if !header.is_complete_block() {
            output.append(&mut self.pending);
            self.skip = header.length;
        } else if self.pending.len() == FRAME_HEADER_BYTES + header.length {
            match rewrite_frame(&self.pending, header.flags) {
                Some(frame) => output.extend(frame),
                // The block is malformed; h2 reports the error.
                None => output.append(&mut self.pending),
            }
            self.pending.clear();
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct FrameHeader {
    length: usize,
    kind: u8,
    flags: u8,
}

impl FrameHeader {
    fn parse(bytes: &[u8]) -> Option<FrameHeader> {
        match *bytes {
            [a, b, c, kind, flags, _, _, _, _, ..] => Some(FrameHeader {
                length: usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c),
                kind,
                flags,
            }),
            _ => None,
        }
    }

    /// Whether the frame is a complete block of headers. A block with CONTINUATION frames has more than 16 KiB, which
    /// no client of a launcher or a hook sidecar sends; it passes unchanged.
    fn is_complete_block(&self) -> bool {
        self.kind == FRAME_TYPE_HEADERS
            && self.flags & FLAG_END_HEADERS != 0
            && self.length <= MAX_FRAME_BYTES
    }
}

/// A HEADERS frame with another `:authority`; `None` when it is malformed.
fn rewrite_frame(frame: &[u8], flags: u8) -> Option<Vec<u8>> {
    let (head, payload) = frame.split_at_checked(FRAME_HEADER_BYTES)?;
    let mut prefix = 0;
    let mut padding = 0;
    if flags & FLAG_PADDED != 0 {
        padding = usize::from(*payload.first()?);
        prefix += 1;
    }
    if flags & FLAG_PRIORITY != 0 {
        prefix += 5;
    }
    let (prefix, rest) = payload.split_at_checked(prefix)?;
    let (block, padding) = rest.split_at_checked(rest.len().checked_sub(padding)?)?;
    let block = rewrite_block(block)?;
    let length = prefix.len() + block.len() + padding.len();
    let [_, a, b, c] = u32::try_from(length).ok()?.to_be_bytes();
    let mut frame = vec![a, b, c];
    frame.extend_from_slice(head.get(3..)?);
    frame.extend_from_slice(prefix);
    frame.extend(block);
    frame.extend_from_slice(padding);
    Some(frame)
}

/// A block of headers with another `:authority`; `None` when it is malformed.
fn rewrite_block(block: &[u8]) -> Option<Vec<u8>> {
    let mut output = Vec::with_capacity(block.len());
    let mut rest = block;
    while let Some(&first) = rest.first() {
        let begin = rest;
        // RFC 7541, section 6: 0x80 indexed; 0x40 literal added to the table; 0x20 table size; else literal not added.
        let name_bits = match first {
            0x80.. => {
                (_, rest) = integer(rest, 7)?;
                output.extend_from_slice(consumed(begin, rest));
                continue;
            }
            0x40.. => 6,
            0x20.. => {
                (_, rest) = integer(rest, 5)?;
                output.extend_from_slice(consumed(begin, rest));
                continue;
            }
            _ => 4,
        };
        let index;
        (index, rest) = integer(rest, name_bits)?;
        let mut is_authority = index == AUTHORITY_INDEX;
        if index == 0 {
            let name;
            (name, rest) = string(rest)?;
            is_authority = name == AUTHORITY_NAME;
        }
        output.extend_from_slice(consumed(begin, rest));
        let before_value = rest;
        let value;
        (value, rest) = string(rest)?;
        // An empty value is the client's error, and the replacement would be longer.
        if is_authority && !value.is_empty() {
            output.extend_from_slice(&REPLACEMENT);
        } else {
            output.extend_from_slice(consumed(before_value, rest));
        }
    }
    Some(output)
}

/// The part of `whole` before `rest`.
fn consumed<'a>(whole: &'a [u8], rest: &[u8]) -> &'a [u8] {
    let length = whole.len().saturating_sub(rest.len());
    whole.get(..length).unwrap_or_default()
}

/// Decodes an integer (RFC 7541, section 5.1), and returns it with the remaining bytes.
fn integer(bytes: &[u8], prefix_bits: u8) -> Option<(usize, &[u8])> {
    let (&first, mut rest) = bytes.split_first()?;
    let largest = (1usize << prefix_bits) - 1;
    let mut value = usize::from(first) & largest;
    if value < largest {
        return Some((value, rest));
    }
    for shift in [0, 7, 14, 21] {
        let byte;
        (byte, rest) = rest.split_first().map(|(byte, rest)| (*byte, rest))?;
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value, rest));
        }
    }
    None
}

/// Splits off a string (RFC 7541, section 5.2), without decoding Huffman code.
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = integer(bytes, 7)?;
    rest.split_at_checked(length)
}

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

#[cfg(test)]
mod tests;
