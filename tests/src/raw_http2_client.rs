//! A client of HTTP/2 on a UNIX socket that writes its frames itself, and so sends what no library sends.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
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

/// A connection, after its preface.
pub struct RawHttp2Client {
    /// The socket.
    pub stream: UnixStream,
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
        Ok(RawHttp2Client { stream })
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
    let headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", authority),
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
