//! A tunnel to the export server: HTTP/2 `CONNECT` over TLS with certificates of both sides.

#[cfg(test)]
mod tests;
mod tls_config;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, StatusCode};
use hyper::client::conn::http2;
use hyper::rt::Executor;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::server::Connected;

use super::ExportRequest;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The port of HTTPS.
const DEFAULT_PORT: u16 = 443;
/// A connection that was lost without a FIN is noticed after the interval and the timeout.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Why a tunnel could not be opened, or broke.
#[derive(Debug, thiserror::Error)]
pub(super) enum TunnelError {
    /// A certificate or the key is invalid.
    #[error("the {what} for the export server cannot be used: {reason}")]
    Certificate {
        /// The certificate or key.
        what: &'static str,
        /// The cause.
        reason: String,
    },
    /// The export server's address or name is invalid.
    #[error("{0:?} is not a valid name of an export server")]
    InvalidServerName(String),
    /// Connecting timed out.
    #[error("connecting to the export server took longer than {CONNECT_TIMEOUT:?}")]
    ConnectTimeout,
    /// The TCP or TLS connection failed.
    #[error("connecting to the export server: {0}")]
    Connect(#[from] std::io::Error),
    /// The HTTP/2 connection or request failed.
    #[error("asking the export server for a tunnel: {0}")]
    Http(#[from] hyper::Error),
    /// The export server refused the tunnel.
    #[error("the export server refuses the tunnel: {0}")]
    Refused(StatusCode),
    /// The tunnel broke while it served the backup.
    #[error("serving the backup: {0}")]
    Serve(#[source] tonic::transport::Error),
}

/// An open tunnel.
pub(super) struct OpenTunnel {
    /// The launcher's end of the tunnel.
    pub(super) stream: TunnelStream,
    /// Cancelled when `stream` is dropped.
    pub(super) closed: CancellationToken,
    /// Ends the connection when it is dropped, even if the stream is still held or the peer does not read.
    pub(super) connection: DropGuard,
}

/// Runs the tasks of one connection until the token is cancelled. Without that, hyper's own task would keep the socket
/// open as long as one of its streams is held.
#[derive(Clone)]
struct ConnectionTasks(CancellationToken);

impl<F> Executor<F> for ConnectionTasks
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        tokio::spawn(self.0.clone().run_until_cancelled_owned(task));
    }
}

/// The launcher's end of a tunnel.
pub(super) struct TunnelStream {
    io: TokioIo<Upgraded>,
    /// Cancels [`OpenTunnel::closed`].
    _closed_guard: DropGuard,
}

/// Opens a tunnel to the export server of the request.
pub(super) async fn open(request: &ExportRequest) -> Result<OpenTunnel, TunnelError> {
    let opened = tokio::time::timeout(CONNECT_TIMEOUT, connect(request)).await;
    opened.unwrap_or(Err(TunnelError::ConnectTimeout))
}

async fn connect(request: &ExportRequest) -> Result<OpenTunnel, TunnelError> {
    let host_port = host_port(&request.address);
    let tls = connect_tls(request, &host_port).await?;
    open_on(tls, host_port).await
}

/// Opens a tunnel to `host_port` on an existing connection.
pub(super) async fn open_on<T>(io: T, host_port: String) -> Result<OpenTunnel, TunnelError>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let ended = CancellationToken::new();
    let tasks = ConnectionTasks(ended.clone());
    let connection_guard = ended.drop_guard();
    let (mut sender, connection) = http2::Builder::new(tasks.clone())
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .handshake(TokioIo::new(io))
        .await?;
    tasks.execute(async move {
        if let Err(error) = connection.await {
            tracing::debug!(reason = %error, "the connection to the export server has ended");
        }
    });
    let connect = Request::connect(&host_port).body(String::new());
    let connect = connect.map_err(|_| TunnelError::InvalidServerName(host_port))?;
    let response = sender.send_request(connect).await?;
    if response.status() != StatusCode::OK {
        return Err(TunnelError::Refused(response.status()));
    }
    let closed = CancellationToken::new();
    Ok(OpenTunnel {
        stream: TunnelStream {
            io: TokioIo::new(hyper::upgrade::on(response).await?),
            _closed_guard: closed.clone().drop_guard(),
        },
        closed,
        connection: connection_guard,
    })
}

async fn connect_tls(
    request: &ExportRequest,
    host_port: &str,
) -> Result<TlsStream<TcpStream>, TunnelError> {
    let config = tls_config::tls_config(request)?;
    let name = ServerName::try_from(request.server_name.clone());
    let name = name.map_err(|_| TunnelError::InvalidServerName(request.server_name.clone()))?;
    let tcp = TcpStream::connect(host_port).await?;
    tcp.set_nodelay(true)?;
    Ok(TlsConnector::from(Arc::new(config))
        .connect(name, tcp)
        .await?)
}

/// Host and port of an address, with the port of HTTPS if it has none.
fn host_port(address: &str) -> String {
    let host = match address.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && is_host_without_port(host) => {
            return format!("{host}:{port}");
        }
        _ => address,
    };
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{DEFAULT_PORT}"),
        false => format!("{host}:{DEFAULT_PORT}"),
    }
}

/// Whether `host`, which a port follows, is a complete host. An IPv6 address without brackets is not, because what
/// follows could be its last group.
fn is_host_without_port(host: &str) -> bool {
    !host.contains(':') || host.ends_with(']')
}

impl Connected for TunnelStream {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for TunnelStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl AsyncWrite for TunnelStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, data)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
