//! An export server: it accepts the launcher's tunnel, and is the client of what the launcher serves in it.

use std::convert::Infallible;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::Command;
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
use tempfile::TempDir;
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

/// The name in the certificate of the server, which listens on an address.
const NAME: &str = "export.default.svc.cluster.local";
const TUNNEL: Duration = Duration::from_secs(20);

type Tunnel = hyper::upgrade::Upgraded;

/// An export server on this machine.
pub struct ExportServer {
    address: SocketAddr,
    authority: Authority,
    tunnels: tokio::sync::Mutex<mpsc::UnboundedReceiver<Tunnel>>,
    status: Arc<Mutex<StatusCode>>,
}

impl ExportServer {
    /// A server in the network of a pod, which accepts every tunnel of a client with its certificate.
    pub async fn start(pod: &Pod) -> Result<ExportServer> {
        let authority = Authority::create()?;
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

    /// How tunnels are answered from now on.
    pub fn answer(&self, status: StatusCode) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// KubeVirt's options to export the backup of that name and time to this server.
    pub fn options(&self, name: &str, time: &str) -> Result<Value> {
        let launcher = self.authority.issue("launcher")?;
        Ok(json!({
            "backupName": name, "cmd": "Export", "mode": "Pull", "backupStartTime": time,
            "exportServerAddr": self.address.to_string(), "exportServerName": NAME,
            "backupKey": launcher.key, "backupCert": launcher.certificate,
            "caCert": self.authority.certificate()?,
        }))
    }

    /// A client of what the launcher serves, once it has opened a tunnel.
    pub async fn client(&self) -> Result<NbdClient<Channel>> {
        let mut tunnels = self.tunnels.lock().await;
        let tunnel = tokio::time::timeout(TUNNEL, tunnels.recv()).await;
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

/// A listener keeps the network namespace that it was made in.
fn listen_in_network_of(process: Pid) -> Result<std::net::TcpListener> {
    let listen = move || -> Result<_> {
        let namespace = File::open(format!("/proc/{}/ns/net", process.as_raw_nonzero()))?;
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(namespace.as_fd(), network)?;
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    // Of this process, only that thread changes its namespace.
    let listener = std::thread::spawn(listen).join();
    listener.map_err(|_| anyhow!("listening in the pod's network panicked"))?
}

async fn accept(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    opened: mpsc::UnboundedSender<Tunnel>,
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

/// Clients must show a certificate of the authority.
fn tls_config(authority: &Authority) -> Result<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let server = authority.issue(NAME)?;
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

/// A certificate authority, made with openssl.
struct Authority(TempDir);

/// A key with its certificate, PEM.
struct IssuedCertificate {
    key: String,
    certificate: String,
}

impl Authority {
    fn create() -> Result<Authority> {
        let authority = Authority(tempfile::tempdir()?);
        authority.openssl(&[
            "-x509",
            "-out",
            "ca.crt",
            "-keyout",
            "ca.key",
            "-subj",
            "/CN=authority",
        ])?;
        Ok(authority)
    }

    fn certificate(&self) -> Result<String> {
        Ok(fs::read_to_string(self.0.path().join("ca.crt"))?)
    }

    fn issue(&self, name: &str) -> Result<IssuedCertificate> {
        let names = format!("subjectAltName=DNS:{name}");
        self.openssl(&[
            "-x509",
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-out",
            "one.crt",
            "-keyout",
            "one.key",
            "-subj",
            "/CN=one",
            "-addext",
            &names,
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ])?;
        let read = |file: &str| fs::read_to_string(self.0.path().join(file));
        Ok(IssuedCertificate {
            key: read("one.key")?,
            certificate: read("one.crt")?,
        })
    }

    /// A request for a certificate, with a new key.
    fn openssl(&self, arguments: &[&str]) -> Result<()> {
        let made = Command::new("openssl")
            .current_dir(self.0.path())
            .args([
                "req",
                "-nodes",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
            ])
            .args(["-days", "2"])
            .args(arguments)
            .output()
            .context("openssl (package openssl)")?;
        ensure!(
            made.status.success(),
            "openssl: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        Ok(())
    }
}

/// All data of an export.
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

/// The map of an export: offset, length, description.
pub async fn map(
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
        extents.extend(all.map(|one| (one.offset, one.length, one.description)));
    }
    Ok(extents)
}
