//! Dials unix sockets, and makes gRPC channels of the connections.

use std::io;
use std::path::Path;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// Timeout of a connection attempt. A local socket accepts at once or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// gRPC requires a URI, which has no meaning over a unix socket.
const PLACEHOLDER_URI: &str = "http://localhost";

pub(super) async fn connect(socket: &Path) -> io::Result<UnixStream> {
    match tokio::time::timeout(CONNECT_TIMEOUT, UnixStream::connect(socket)).await {
        Ok(stream) => stream,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Makes a gRPC channel of an open connection.
pub(crate) async fn channel(stream: UnixStream) -> Result<Channel, tonic::transport::Error> {
    let mut stream = Some(stream);
    let connector = service_fn(move |_| {
        let stream = stream
            .take()
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
        async move { stream.map(TokioIo::new) }
    });
    Endpoint::from_static(PLACEHOLDER_URI)
        .connect_with_connector(connector)
        .await
}

/// The text of a connection error.
pub(super) fn error_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "socket refuses connections".to_owned(),
        io::ErrorKind::NotFound => "socket is gone".to_owned(),
        io::ErrorKind::PermissionDenied => "socket may not be opened: permission denied".to_owned(),
        io::ErrorKind::TimedOut => {
            format!("socket did not accept a connection in {CONNECT_TIMEOUT:?}")
        }
        _ => format!("socket cannot be dialled: {error}"),
    }
}
