//! Serves a backup in pull mode to the export server while the backup runs.
//!
//! ```text
//!   [connecting] ──tunnel──▶ [serving] ──broken──▶ [waiting 1 s to 5 min] ──▶ [connecting]
//! ```
//! The export server opens no connections itself: the launcher opens a tunnel to it, and serves the NBD service inside
//! of the tunnel.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bounded_listener::{http2_server, limits};
use http::{Request, StatusCode};
use hyper::client::conn::http2;
use hyper::rt::Executor;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioIo, TokioTimer};
use proto::nbd::nbd_server::NbdServer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_stream::StreamExt;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::server::Connected;

use super::{BackupError, ExportRequest, backup_metadata_rules};
use crate::blocking;
use crate::jobs::Jobs;
use crate::nbd::NbdService;

const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5 * 60);
/// After a tunnel that lasted this long, the retry delay starts again from the minimum.
const STABLE_TUNNEL_TIME: Duration = Duration::from_secs(30);
/// Timeout of looking for QEMU's socket.
const SOCKET_CHECK_TIMEOUT: Duration = Duration::from_secs(4);

/// A running export. Dropping it ends the export.
#[derive(Debug)]
pub(in crate::jobs) struct Export {
    request: Arc<ExportRequest>,
    _task: AbortOnDropHandle<()>,
}

impl Jobs {
    /// Serves the running backup to the export server of the request. A repeated request has no effect.
    pub(crate) async fn export_backup(&self, request: ExportRequest) -> Result<(), BackupError> {
        let socket = self.context.backup_socket.clone();
        require_socket(&socket).await?;
        let mut state = self.lock();
        backup_metadata_rules::require_running(state.backup.as_ref(), &request.id)?;
        let running = state.export.as_ref();
        if running.is_some_and(|export| *export.request == request) {
            return Ok(());
        }
        let request = Arc::new(request);
        let task = tokio::spawn(serve(Arc::clone(&request), socket));
        state.export = Some(Export {
            request,
            _task: AbortOnDropHandle::new(task),
        });
        Ok(())
    }
}

/// Requires that QEMU's socket exists. QEMU creates it when the backup begins.
async fn require_socket(socket: &Path) -> Result<(), BackupError> {
    let path = socket.to_owned();
    let read = move || path.symlink_metadata();
    let metadata = blocking::file_call(
        "looking for the backup's socket",
        SOCKET_CHECK_TIMEOUT,
        read,
    )
    .await?;
    metadata.map(drop).map_err(|reason| BackupError::NoSocket {
        path: socket.to_owned(),
        reason: reason.to_string(),
    })
}

/// Serves the backup in one tunnel after the other.
async fn serve(request: Arc<ExportRequest>, socket: PathBuf) {
    let mut retry_delay = MIN_RETRY_DELAY;
    loop {
        let started_at = Instant::now();
        match serve_once(&request, &socket).await {
            Ok(()) => tracing::info!(
                server = request.address,
                "the export server has closed the tunnel"
            ),
            Err(error) => tracing::warn!(
                server = request.address,
                reason = %error,
                "the backup cannot be served to the export server; it is tried again"
            ),
        }
        if started_at.elapsed() >= STABLE_TUNNEL_TIME {
            retry_delay = MIN_RETRY_DELAY;
        }
        tokio::time::sleep(retry_delay).await;
        retry_delay = (retry_delay * 2).min(MAX_RETRY_DELAY);
    }
}

async fn serve_once(request: &ExportRequest, socket: &Path) -> Result<(), TunnelError> {
    let tunnel = open_export_tunnel(request).await?;
    tracing::info!(
        server = request.address,
        "serving the backup to the export server"
    );
    serve_in(tunnel, socket).await
}

/// Serves the backup until the tunnel is closed. The server's own tasks may outlive this future; they end with the
/// connection.
pub(super) async fn serve_in(tunnel: OpenTunnel, socket: &Path) -> Result<(), TunnelError> {
    let OpenTunnel {
        stream,
        closed,
        connection: _connection,
    } = tunnel;
    // The listener yields one connection, and must not end before that connection does.
    let incoming = tokio_stream::once(Ok::<_, std::io::Error>(stream));
    let incoming = incoming.chain(tokio_stream::pending());
    let service = NbdServer::new(NbdService::new(socket.to_owned()));
    let server = http2_server(limits::BACKUP_EXPORT_CALLS).add_service(service);
    let served = server.serve_with_incoming_shutdown(incoming, closed.cancelled());
    served.await.map_err(TunnelError::Serve)
}

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
pub(super) async fn open_export_tunnel(request: &ExportRequest) -> Result<OpenTunnel, TunnelError> {
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
    let config = tls_config(request)?;
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

/// Maximum size of a certificate or key in bytes; usual ones are much smaller.
const MAX_PEM_BYTES: usize = 256 << 10;

/// The configuration, with the certificates and the key of the request.
fn tls_config(request: &ExportRequest) -> Result<ClientConfig, TunnelError> {
    let invalid =
        |what: &'static str| move |reason: String| TunnelError::Certificate { what, reason };
    let mut roots = RootCertStore::empty();
    for ca in certificates(&request.ca).map_err(invalid("certificate authority"))? {
        let added = roots.add(ca);
        added.map_err(|error| invalid("certificate authority")(error.to_string()))?;
    }
    let chain = certificates(&request.certificate).map_err(invalid("certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(check_pem_size(&request.key).map_err(invalid("key"))?);
    let key = key.map_err(|error| invalid("key")(error.to_string()))?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid("protocol")(error.to_string()))?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key);
    let mut config = config.map_err(|error| invalid("certificate")(error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(check_pem_size(pem)?);
    let certificates: Result<Vec<_>, _> = certificates.collect();
    let certificates = certificates.map_err(|error| error.to_string())?;
    match certificates.is_empty() {
        true => Err("there is no certificate in it".to_owned()),
        false => Ok(certificates),
    }
}

fn check_pem_size(pem: &str) -> Result<&[u8], String> {
    match pem.len() <= MAX_PEM_BYTES {
        true => Ok(pem.as_bytes()),
        false => Err(format!(
            "it is {} bytes, more than {MAX_PEM_BYTES}",
            pem.len()
        )),
    }
}

#[cfg(test)]
mod tests;
