//! A client of HTTP/2 on a UNIX socket that writes its frames itself, and so sends what no library sends.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Frame type (RFC 9113, 6): a piece of a body.
pub const DATA: u8 = 0;
/// Frame type: the headers of a request.
pub const HEADERS: u8 = 1;
/// Frame type: the end of a stream.
pub const RST_STREAM: u8 = 3;
/// Frame type: the settings of the sender.
pub const SETTINGS: u8 = 4;
/// Frame type: a ping.
pub const PING: u8 = 6;
/// Frame type: the end of a connection.
pub const GOAWAY: u8 = 7;
/// Frame type: the peer may send more.
pub const WINDOW_UPDATE: u8 = 8;
/// Frame type: more headers.
pub const CONTINUATION: u8 = 9;
/// Flag of settings and pings: they are an answer.
pub const ACK: u8 = 1;
/// Flag: the body ends.
pub const END_STREAM: u8 = 1;
/// Flag: no more headers follow.
pub const END_HEADERS: u8 = 4;

/// The setting of the window of each stream, RFC 9113, 6.5.2.
pub const INITIAL_WINDOW_SIZE: u16 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// After this time without progress, a server has stopped to read.
const STOPPED_READING_AFTER: Duration = Duration::from_millis(300);

/// The window of the connection, and of a stream before the server's settings (RFC 9113, 6.9.2).
const FIRST_WINDOW_BYTES: i64 = 65_535;
/// The largest frame that a server takes before it says otherwise (RFC 9113, 6.5.2).
const MAX_FRAME_BYTES: usize = 16 << 10;
const FRAME_HEADER_BYTES: usize = 9;
/// HPACK's first byte of a header whose name follows, and which both sides add to their tables (RFC 7541, 6.2.1).
const LITERAL_ADDED_TO_THE_TABLE: u8 = 0x40;
/// HPACK's reference to the header that was added last, behind the 61 of the static table.
const FIRST_HEADER_OF_THE_TABLE: u8 = 0x80 | 62;

/// A connection, after its preface.
pub struct RawHttp2Client {
    /// The socket.
    pub stream: UnixStream,
    /// What was read of the next frame.
    unread: Vec<u8>,
}

/// The bodies that a client sends, and how much the server lets it send.
struct Upload {
    connection_window: i64,
    /// The server's setting.
    first_window: i64,
    /// How much is sent on each open stream, and its window.
    streams: BTreeMap<u32, (usize, i64)>,
}

impl RawHttp2Client {
    /// Connects, and sends the preface with `settings`.
    pub async fn connect(socket: &Path, settings: &[(u16, u32)]) -> io::Result<RawHttp2Client> {
        let mut stream = UnixStream::connect(socket).await?;
        let mut payload = Vec::new();
        for (setting, value) in settings {
            payload.extend(setting.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        stream.write_all(PREFACE).await?;
        stream.write_all(&frame(SETTINGS, 0, 0, &payload)).await?;
        Ok(RawHttp2Client {
            stream,
            unread: Vec::new(),
        })
    }

    /// Sends bytes until all are sent, the server has closed the connection, or it has stopped to read. Returns how many
    /// were sent.
    pub async fn send(&mut self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        while sent < bytes.len() {
            let write = self.stream.write(&bytes[sent..]);
            match timeout(STOPPED_READING_AFTER, write).await {
                Ok(Ok(count)) => sent += count,
                Ok(Err(_)) | Err(_) => break,
            }
        }
        sent
    }

    /// Opens `count` requests, sends `body` on each, round and round, as fast as the server extends the windows, and ends
    /// none of them unless `is_complete`. Returns how many bytes of bodies were sent until all were, the server has closed
    /// the connection, or it has stopped to read.
    pub async fn send_bodies(
        &mut self,
        count: u32,
        headers: &[u8],
        body: &[u8],
        is_complete: bool,
    ) -> usize {
        let mut upload = Upload {
            connection_window: FIRST_WINDOW_BYTES,
            first_window: FIRST_WINDOW_BYTES,
            streams: BTreeMap::new(),
        };
        for stream in streams(count) {
            self.send(&frame(HEADERS, END_HEADERS, stream, headers))
                .await;
            upload.streams.insert(stream, (0, FIRST_WINDOW_BYTES));
        }
        let mut all_sent = 0;
        loop {
            let mut frames = Vec::new();
            for (stream, (sent, window)) in &mut upload.streams {
                let allowed = upload.connection_window.min(*window).max(0) as usize;
                let length = allowed.min(body.len() - *sent).min(MAX_FRAME_BYTES);
                if length == 0 {
                    continue;
                }
                let part = &body[*sent..*sent + length];
                *sent += length;
                all_sent += length;
                *window -= length as i64;
                upload.connection_window -= length as i64;
                let is_last = is_complete && *sent == body.len();
                frames.extend(frame(DATA, u8::from(is_last) * END_STREAM, *stream, part));
            }
            if !frames.is_empty() {
                if self.send(&frames).await < frames.len() {
                    return all_sent;
                }
                continue;
            }
            upload.streams.retain(|_, (sent, _)| *sent < body.len());
            if upload.streams.is_empty() {
                return all_sent;
            }
            match timeout(STOPPED_READING_AFTER, self.next_frame()).await {
                Ok(Ok((kind, flags, stream, payload))) => {
                    upload.take(kind, flags, stream, &payload);
                    if kind == SETTINGS && flags & ACK == 0 {
                        // Before, the server does not allow what its settings say.
                        self.send(&frame(SETTINGS, ACK, 0, &[])).await;
                    }
                }
                Ok(Err(_)) | Err(_) => return all_sent,
            }
        }
    }

    /// Calls the method of `path` with an empty message and an encoded `:authority`. Returns the types of the frames of the
    /// answer.
    async fn call(&mut self, stream: u32, path: &str, authority: &[u8]) -> io::Result<Vec<u8>> {
        let headers = [authority, &headers_without_authority(path)].concat();
        let request = [
            frame(HEADERS, END_HEADERS, stream, &headers),
            frame(DATA, END_STREAM, stream, &grpc_message(&[])),
        ];
        self.stream.write_all(&request.concat()).await?;
        let mut kinds = Vec::new();
        loop {
            let (kind, flags, of_stream, _) = self.next_frame().await?;
            if of_stream != stream {
                continue;
            }
            kinds.push(kind);
            let has_ended = matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0;
            if has_ended || kind == RST_STREAM {
                return Ok(kinds);
            }
        }
    }

    /// The next frame from the server: its type, flags, stream and payload. Can be cancelled.
    async fn next_frame(&mut self) -> io::Result<(u8, u8, u32, Vec<u8>)> {
        loop {
            if let [a, b, c, kind, flags, d, e, f, g, payload @ ..] = &self.unread[..] {
                let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
                if let Some(payload) = payload.get(..length) {
                    let stream = u32::from_be_bytes([*d, *e, *f, *g]);
                    let next = (*kind, *flags, stream, payload.to_vec());
                    self.unread.drain(..FRAME_HEADER_BYTES + length);
                    return Ok(next);
                }
            }
            if self.stream.read_buf(&mut self.unread).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl Upload {
    fn take(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        match (kind, payload) {
            (SETTINGS, settings) if flags & ACK == 0 => {
                for setting in settings.chunks_exact(6) {
                    if setting[..2] == INITIAL_WINDOW_SIZE.to_be_bytes() {
                        let window = i64::from(u32::from_be_bytes(
                            setting[2..].try_into().unwrap_or_default(),
                        ));
                        for (_, of_stream) in self.streams.values_mut() {
                            *of_stream += window - self.first_window;
                        }
                        self.first_window = window;
                    }
                }
            }
            (WINDOW_UPDATE, [a, b, c, d]) => {
                let increment = i64::from(u32::from_be_bytes([*a, *b, *c, *d]));
                match self.streams.get_mut(&stream) {
                    Some((_, window)) => *window += increment,
                    None if stream == 0 => self.connection_window += increment,
                    None => {}
                }
            }
            (RST_STREAM, _) => drop(self.streams.remove(&stream)),
            _ => {}
        }
    }
}

/// What gRPC clients send as `:authority`: a host, the path of the socket, plain or percent-encoded, or its URL.
pub const AUTHORITIES: [&str; 7] = [
    "localhost",
    "/var/run/kubevirt/sockets/launcher-sock",
    "var%2Frun%2Fkubevirt-hooks%2Fvirt-hook-example.sock",
    "unix:/var/run/kubevirt/sockets/launcher-sock",
    "unix:///var/run/kubevirt",
    "a b",
    "::",
];

/// Calls the method of `path` with an empty message twice, with the same `:authority`, and returns the types of the frames
/// of both answers. The first request adds the `:authority` to the table of headers, with its name as gRPC's C core writes
/// it, and the second one refers to that.
pub async fn frames_of_two_answers(
    socket: &Path,
    path: &str,
    authority: &str,
) -> io::Result<[Vec<u8>; 2]> {
    let mut added = Vec::new();
    push_header(&mut added, ":authority", authority);
    added[0] = LITERAL_ADDED_TO_THE_TABLE;
    let mut client = RawHttp2Client::connect(socket, &[]).await?;
    let first = client.call(1, path, &added).await?;
    let second = client.call(3, path, &[FIRST_HEADER_OF_THE_TABLE]).await?;
    Ok([first, second])
}

/// The numbers of the first streams that a client opens.
pub fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|index| 2 * index + 1)
}

/// Requests that never end.
pub fn unfinished_requests(count: u32, path: &str) -> Vec<u8> {
    let headers = request_headers(path, "localhost");
    let frames = streams(count).map(|stream| frame(HEADERS, END_HEADERS, stream, &headers));
    frames.collect::<Vec<_>>().concat()
}

/// Whether the server closes the connection within `deadline`. What it still sends is read.
pub async fn is_closed(stream: &mut (impl AsyncRead + Unpin), deadline: Duration) -> bool {
    let mut sink = tokio::io::sink();
    timeout(deadline, tokio::io::copy(stream, &mut sink))
        .await
        .is_ok()
}

/// A frame of HTTP/2.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The headers of a gRPC request, each a literal without indexing (RFC 7541, 6.2.2).
pub fn request_headers(path: &str, authority: &str) -> Vec<u8> {
    let mut block = Vec::new();
    push_header(&mut block, ":authority", authority);
    block.extend(headers_without_authority(path));
    block
}

fn headers_without_authority(path: &str) -> Vec<u8> {
    let headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let mut block = Vec::new();
    for (name, text) in headers {
        push_header(&mut block, name, text);
    }
    block
}

/// Appends a header to a block.
pub fn push_header(block: &mut Vec<u8>, name: &str, text: &str) {
    block.push(0);
    for part in [name, text] {
        push_length(block, part.len());
        block.extend(part.as_bytes());
    }
}

/// Appends the length of a string with a prefix of seven bits, RFC 7541, 5.1.
fn push_length(block: &mut Vec<u8>, length: usize) {
    if length < 127 {
        block.push(length as u8);
        return;
    }
    block.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        block.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    block.push(rest as u8);
}

/// A message of gRPC.
pub fn grpc_message(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u32).to_be_bytes();
    [&[0][..], &length, message].concat()
}
