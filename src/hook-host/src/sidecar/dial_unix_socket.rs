//! Connections over unix sockets.

use std::io;
use std::path::Path;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// A local socket accepts at once or not at all.
const CONNECT: Duration = Duration::from_secs(1);
/// gRPC needs an address, which has no meaning over a unix socket.
const ADDRESS: &str = "http://localhost";

pub(super) async fn connect(socket: &Path) -> io::Result<UnixStream> {
    match tokio::time::timeout(CONNECT, UnixStream::connect(socket)).await {
        Ok(stream) => stream,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// A gRPC channel over an open connection.
pub(crate) async fn channel(stream: UnixStream) -> Result<Channel, tonic::transport::Error> {
    let mut stream = Some(stream);
    let connector = service_fn(move |_| {
        let stream = stream
            .take()
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
        async move { stream.map(TokioIo::new) }
    });
    Endpoint::from_static(ADDRESS)
        .connect_with_connector(connector)
        .await
}

/// Why a socket cannot be dialled, for messages.
pub(super) fn error_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "socket refuses connections".to_owned(),
        io::ErrorKind::NotFound => "socket is gone".to_owned(),
        io::ErrorKind::PermissionDenied => "socket may not be opened: permission denied".to_owned(),
        io::ErrorKind::TimedOut => format!("socket did not accept a connection in {CONNECT:?}"),
        _ => format!("socket cannot be dialled: {error}"),
    }
}
