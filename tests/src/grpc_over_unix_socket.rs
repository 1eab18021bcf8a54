//! A gRPC channel over a Unix socket.

use std::path::{Path, PathBuf};

use anyhow::Result;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// Connects at once, and fails when nobody listens.
pub async fn dial(socket: &Path) -> Result<Channel> {
    let socket = PathBuf::from(socket);
    // tonic requires an address, but only the connector is used.
    let endpoint = Endpoint::from_static("http://unix.sock");
    let connector = service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Ok(endpoint.connect_with_connector(connector).await?)
}
