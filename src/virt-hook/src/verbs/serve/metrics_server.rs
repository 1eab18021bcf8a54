//! Serves metrics for Prometheus by HTTP.
//!
//! Clients can only read: hook names, versions, digests, counts. A client has
//! [`CONNECTION_TIMEOUT`] for its request and for reading the answer, and sends at most [`MAX_REQUEST`] bytes. When more
//! than [`limits::METRICS`] allows are connected, the connection that was idle longest is closed. Hooks do not wait for
//! any of them: the lock on the counts is held for a copy.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bounded_listener::{ByteListener, limits};
use hook_host::HookMetrics;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const MAX_REQUEST: usize = 8 << 10;
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// A bound address. Connections wait until [`MetricsListener::serve`] is called.
pub(super) struct MetricsListener(TcpListener);

impl MetricsListener {
    pub(super) async fn bind(address: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("--metrics {address}"))?;
        Ok(Self(listener))
    }

    /// Serves until the listener is dropped. Needs a tokio runtime.
    pub(super) fn serve(self, metrics: Arc<HookMetrics>) -> ByteListener {
        if let Ok(address) = self.0.local_addr() {
            tracing::info!(%address, "metrics are served");
        }
        ByteListener::serve(self.0, limits::METRICS, move |stream, _| {
            let metrics = Arc::clone(&metrics);
            async move {
                // A client that is too slow or has disconnected gets no answer.
                let _ = timeout(CONNECTION_TIMEOUT, answer(stream, &metrics)).await;
            }
        })
    }
}

async fn answer(mut stream: TcpStream, metrics: &HookMetrics) -> io::Result<()> {
    let response = match read_head(&mut stream).await? {
        Some(head) => response(&head, metrics),
        None => plain_text(
            "431 Request Header Fields Too Large",
            "",
            "the request is too long\n",
        ),
    };
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await?;
    // Unread bytes at the close would reset the connection before the client has read the answer.
    let mut rest = [0; 1024];
    let mut unread = MAX_REQUEST;
    while unread > 0 {
        match stream.read(&mut rest).await? {
            0 => break,
            read => unread = unread.saturating_sub(read),
        }
    }
    Ok(())
}

/// The head of the request; `None` if it is too long.
async fn read_head(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::with_capacity(1024);
    loop {
        let mut limited = (&mut *stream).take((MAX_REQUEST - head.len()) as u64);
        let read = limited.read_buf(&mut head).await?;
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Some(head));
        }
        if head.len() >= MAX_REQUEST {
            return Ok(None);
        }
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn response(head: &[u8], metrics: &HookMetrics) -> String {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    if !version.is_some_and(|version| version.starts_with(b"HTTP/1.")) {
        return plain_text("400 Bad Request", "", "this is not an HTTP/1 request\n");
    }
    if method != Some(b"GET") {
        return plain_text("405 Method Not Allowed", "Allow: GET\r\n", "only GET\n");
    }
    let path = target.and_then(|target| target.split(|byte| *byte == b'?').next());
    if path != Some(b"/metrics") {
        return plain_text("404 Not Found", "", "metrics are at /metrics\n");
    }
    http_response(
        "200 OK",
        "text/plain; version=0.0.4; charset=utf-8",
        "",
        &metrics.to_prometheus(),
    )
}

fn plain_text(status: &str, header: &str, body: &str) -> String {
    http_response(status, "text/plain; charset=utf-8", header, body)
}

fn http_response(status: &str, content_type: &str, header: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n{header}\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}
