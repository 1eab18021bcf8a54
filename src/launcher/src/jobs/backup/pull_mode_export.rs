//! Serves a backup in pull mode to the export server, for as long as the backup runs.
//!
//! ```text
//!   [connecting] ──tunnel──▶ [serving] ──broken──▶ [waiting 1 s to 5 min] ──▶ [connecting]
//! ```
//! The export server calls nobody: the launcher opens a tunnel to it and is the server at the tunnel's far end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use proto::nbd::nbd_server::NbdServer;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::Server;

use super::export_tunnel::{self, OpenTunnel, TunnelError};
use super::{BackupError, ExportRequest, backup_metadata_rules};
use crate::blocking;
use crate::jobs::Jobs;
use crate::nbd::NbdService;

const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(5 * 60);
/// A tunnel that held this long was good: the next one is tried soon.
const GOOD: Duration = Duration::from_secs(30);
const SOCKET: Duration = Duration::from_secs(4);

/// A running export; it ends when this is dropped.
#[derive(Debug)]
pub(in crate::jobs) struct Export {
    request: Arc<ExportRequest>,
    _task: AbortOnDropHandle<()>,
}

impl Jobs {
    /// Serves the running backup to the export server in the request. The same request again changes nothing.
    pub(crate) async fn export_backup(&self, request: ExportRequest) -> Result<(), BackupError> {
        let socket = self.context.backup_socket.clone();
        must_exist(&socket).await?;
        let mut state = self.lock();
        backup_metadata_rules::is_running(state.backup.as_ref(), &request.id)?;
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

/// QEMU makes the socket when the backup begins.
async fn must_exist(socket: &Path) -> Result<(), BackupError> {
    let path = socket.to_owned();
    let look = move || path.symlink_metadata();
    let found = blocking::file_call("looking for the backup's socket", SOCKET, look).await?;
    found.map(drop).map_err(|reason| BackupError::NoSocket {
        path: socket.to_owned(),
        reason: reason.to_string(),
    })
}

/// Opens tunnels, one after the other.
async fn serve(request: Arc<ExportRequest>, socket: PathBuf) {
    let mut wait = FIRST_WAIT;
    loop {
        let began = Instant::now();
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
        if began.elapsed() >= GOOD {
            wait = FIRST_WAIT;
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

async fn serve_once(request: &ExportRequest, socket: &Path) -> Result<(), TunnelError> {
    let tunnel = export_tunnel::open(request).await?;
    tracing::info!(
        server = request.address,
        "serving the backup to the export server"
    );
    serve_in(tunnel, socket).await
}

/// Serves until the tunnel is closed. The server's own tasks outlive this future; the end of the connection ends them.
pub(super) async fn serve_in(tunnel: OpenTunnel, socket: &Path) -> Result<(), TunnelError> {
    let OpenTunnel {
        stream,
        closed,
        connection: _connection,
    } = tunnel;
    // The listener accepts one connection and no other, and must not end before that one.
    let incoming = tokio_stream::once(Ok::<_, std::io::Error>(stream));
    let incoming = incoming.chain(tokio_stream::pending());
    let service = NbdServer::new(NbdService::new(socket.to_owned()));
    let server = Server::builder().add_service(service);
    let served = server.serve_with_incoming_shutdown(incoming, closed.cancelled());
    served.await.map_err(TunnelError::Serve)
}
