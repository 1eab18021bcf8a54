//! An export server for pulled backups: it accepts the launcher's tunnel, and is an NBD client inside the tunnel, where
//! the launcher serves the disks.

mod certificate_authority;

use std::convert::Infallible;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use proto::nbd::nbd_client::NbdClient;
use proto::nbd::{MapRequest, ReadRequest};
use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tonic::transport::{Channel, Endpoint};

use crate::pod::Pod;
use certificate_authority::CertificateAuthority;

/// The DNS name in the server's certificate. The launcher connects to an IP address.
const SERVER_NAME: &str = "export.default.svc.cluster.local";
/// How long the launcher may take to open a tunnel.
const TUNNEL_TIMEOUT: Duration = Duration::from_secs(20);

type TunnelStream = hyper::upgrade::Upgraded;

/// An export server on this machine.
pub struct ExportServer {
    address: SocketAddr,
    authority: CertificateAuthority,
    tunnels: tokio::sync::Mutex<mpsc::UnboundedReceiver<TunnelStream>>,
    status: Arc<Mutex<StatusCode>>,
}

impl ExportServer {
    /// Starts a server in the pod's network. It accepts tunnels of clients that have a certificate of its authority.
    pub async fn start(pod: &Pod) -> Result<ExportServer> {
        let authority = CertificateAuthority::create()?;
        let acceptor = TlsAcceptor::from(Arc::new(tls_config(&authority)?));
        let launcher = pod.process("virt-launcher").context("no launcher runs")?;
        let listener = TcpListener::from_std(listen_in_network_of(launcher.pid)?)?;
        let address = listener.local_addr()?;
        let (opened, tunnels) = mpsc::unbounded_channel();
        let status = Arc::new(Mutex::new(StatusCode::OK));
        let answer = Arc::clone(&status);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let connection = accept(
                    stream,
                    acceptor.clone(),
                    opened.clone(),
                    Arc::clone(&answer),
                );
                tokio::spawn(connection);
            }
        });
        Ok(ExportServer {
            address,
            authority,
            tunnels: tokio::sync::Mutex::new(tunnels),
            status,
        })
    }

    /// Sets the HTTP status with which later requests for a tunnel are answered.
    pub fn set_tunnel_status(&self, status: StatusCode) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// KubeVirt's options to export the backup with this name and start time to this server.
    pub fn options(&self, name: &str, time: &str) -> Result<Value> {
        let launcher = self.authority.issue("launcher")?;
        Ok(json!({
            "backupName": name, "cmd": "Export", "mode": "Pull", "backupStartTime": time,
            "exportServerAddr": self.address.to_string(), "exportServerName": SERVER_NAME,
            "backupKey": launcher.key, "backupCert": launcher.certificate,
            "caCert": self.authority.certificate()?,
        }))
    }

    /// Waits until the launcher has opened a tunnel, and returns an NBD client of the launcher.
    pub async fn client(&self) -> Result<NbdClient<Channel>> {
        let mut tunnels = self.tunnels.lock().await;
        let tunnel = tokio::time::timeout(TUNNEL_TIMEOUT, tunnels.recv()).await;
        let mut tunnel = Some(
            tunnel
                .context("no tunnel is opened")?
                .context("no server")?,
        );
        let connector = tower::service_fn(move |_| {
            let tunnel = tunnel.take();
            async move { tunnel.ok_or_else(|| std::io::Error::other("the tunnel is used up")) }
        });
        let endpoint = Endpoint::from_static("http://backup");
        Ok(NbdClient::new(
            endpoint.connect_with_connector(connector).await?,
        ))
    }
}

/// Listens in the network namespace of `process`: a listener stays in the namespace in which it was created.
fn listen_in_network_of(process: Pid) -> Result<std::net::TcpListener> {
    let listen = move || -> Result<_> {
        let namespace = File::open(format!("/proc/{}/ns/net", process.as_raw_nonzero()))?;
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(namespace.as_fd(), network)?;
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    // Only that thread of this process changes its namespace.
    let listener = std::thread::spawn(listen).join();
    listener.map_err(|_| anyhow!("listening in the pod's network panicked"))?
}

async fn accept(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    opened: mpsc::UnboundedSender<TunnelStream>,
    status: Arc<Mutex<StatusCode>>,
) {
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let opened = opened.clone();
        let mut status = *status.lock().unwrap_or_else(PoisonError::into_inner);
        if request.method() != Method::CONNECT {
            status = StatusCode::METHOD_NOT_ALLOWED;
        }
        if status == StatusCode::OK {
            tokio::spawn(async move {
                if let Ok(tunnel) = hyper::upgrade::on(request).await {
                    let _ = opened.send(tunnel);
                }
            });
        }
        let mut response = Response::new(String::new());
        *response.status_mut() = status;
        async move { Ok::<_, Infallible>(response) }
    });
    let _ = http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// A TLS configuration that accepts only clients with a certificate of the authority.
fn tls_config(authority: &CertificateAuthority) -> Result<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let server = authority.issue(SERVER_NAME)?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(
        authority.certificate()?.as_bytes(),
    )?)?;
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let certificate = CertificateDer::from_pem_slice(server.certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(server.key.as_bytes())?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients.build()?)
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// Reads all data of an export.
pub async fn read_all(client: &mut NbdClient<Channel>, export: &str) -> Result<Vec<u8>> {
    let request = ReadRequest {
        export_name: export.to_owned(),
        ..ReadRequest::default()
    };
    let mut chunks = client.read(request).await?.into_inner();
    let mut data = Vec::new();
    while let Some(chunk) = chunks.message().await? {
        ensure!(chunk.offset == data.len() as u64, "a gap at {}", data.len());
        data.extend(chunk.data);
    }
    Ok(data)
}

/// Reads the map of an export: offset, length and description of each extent.
pub async fn read_map(
    client: &mut NbdClient<Channel>,
    export: &str,
    bitmap: &str,
) -> Result<Vec<(u64, u64, String)>> {
    let request = MapRequest {
        export_name: export.to_owned(),
        bitmap_name: bitmap.to_owned(),
        ..MapRequest::default()
    };
    let mut responses = client.map(request).await?.into_inner();
    let mut extents = Vec::new();
    while let Some(response) = responses.message().await? {
        let all = response.extents.into_iter();
        extents.extend(all.map(|extent| (extent.offset, extent.length, extent.description)));
    }
    Ok(extents)
}
