//! A tunnel to the export server: HTTP/2 `CONNECT` over TLS with certificates of both sides.

#[cfg(test)]
mod tests;

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
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::server::Connected;

use super::ExportRequest;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const PORT: u16 = 443;
/// An export server whose connection is lost without a FIN is noticed after both.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Usual certificates are much smaller.
const MAX_PEM_BYTES: usize = 256 << 10;

/// The tunnel cannot be opened, or broke.
#[derive(Debug, thiserror::Error)]
pub(super) enum TunnelError {
    /// A certificate or key cannot be used.
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
    /// Connecting took too long.
    #[error("connecting to the export server took longer than {CONNECT_TIMEOUT:?}")]
    ConnectTimeout,
    /// The connection, or TLS on it, failed.
    #[error("connecting to the export server: {0}")]
    Connect(#[from] std::io::Error),
    /// HTTP/2 failed.
    #[error("asking the export server for a tunnel: {0}")]
    Http(#[from] hyper::Error),
    /// The export server refused.
    #[error("the export server refuses the tunnel: {0}")]
    Refused(StatusCode),
    /// The tunnel broke.
    #[error("serving the backup: {0}")]
    Serve(#[source] tonic::transport::Error),
}

/// An open tunnel.
pub(super) struct OpenTunnel {
    /// The tunnel's near end.
    pub(super) stream: TunnelStream,
    /// Cancelled when the stream is closed.
    pub(super) closed: CancellationToken,
    /// The connection ends when this is dropped, whoever still holds the stream and whether or not the peer reads.
    pub(super) connection: DropGuard,
}

/// Runs the tasks of one connection until the token is cancelled. hyper's own task owns the socket, and lives as long as
/// one of its streams.
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

/// The near end of a tunnel.
pub(super) struct TunnelStream {
    io: TokioIo<Upgraded>,
    _closes: DropGuard,
}

/// Opens a tunnel.
pub(super) async fn open(request: &ExportRequest) -> Result<OpenTunnel, TunnelError> {
    let opened = tokio::time::timeout(CONNECT_TIMEOUT, connect(request)).await;
    opened.unwrap_or(Err(TunnelError::ConnectTimeout))
}

async fn connect(request: &ExportRequest) -> Result<OpenTunnel, TunnelError> {
    let host_port = host_port(&request.address);
    let tls = connect_tls(request, &host_port).await?;
    open_on(tls, host_port).await
}

/// Opens a tunnel to `host_port` on a connection.
pub(super) async fn open_on<T>(io: T, host_port: String) -> Result<OpenTunnel, TunnelError>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let ended = CancellationToken::new();
    let tasks = ConnectionTasks(ended.clone());
    let ends = ended.drop_guard();
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
            _closes: closed.clone().drop_guard(),
        },
        closed,
        connection: ends,
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

fn tls_config(request: &ExportRequest) -> Result<ClientConfig, TunnelError> {
    let unusable =
        |what: &'static str| move |reason: String| TunnelError::Certificate { what, reason };
    let mut roots = RootCertStore::empty();
    for ca in certificates(&request.ca).map_err(unusable("certificate authority"))? {
        let added = roots.add(ca);
        added.map_err(|error| unusable("certificate authority")(error.to_string()))?;
    }
    let chain = certificates(&request.certificate).map_err(unusable("certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(check_pem_size(&request.key).map_err(unusable("key"))?);
    let key = key.map_err(|error| unusable("key")(error.to_string()))?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("protocol")(error.to_string()))?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key);
    let mut config = config.map_err(|error| unusable("certificate")(error.to_string()))?;
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

/// Host and port; the port of HTTPS if there is none.
fn host_port(address: &str) -> String {
    let host = match address.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && is_host_without_port(host) => {
            return format!("{host}:{port}");
        }
        _ => address,
    };
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{PORT}"),
        false => format!("{host}:{PORT}"),
    }
}

/// Whether `host` is a complete host; a bare IPv6 address is not, since its last group could be a port.
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
