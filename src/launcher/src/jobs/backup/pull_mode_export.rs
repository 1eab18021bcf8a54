//! Serves a backup in pull mode to the export server while the backup runs.
//!
//! ```text
//!   [connecting] ──tunnel──▶ [serving] ──broken──▶ [waiting 1 s to 5 min] ──▶ [connecting]
//! ```
//! The export server opens no connections itself: the launcher opens a tunnel to it, and serves the NBD service inside
//! of the tunnel.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bounded_listener::{http2_server, limits};
use proto::nbd::nbd_server::NbdServer;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tokio_util::task::AbortOnDropHandle;

use super::export_tunnel::{self, OpenTunnel, TunnelError};
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
    let tunnel = export_tunnel::open(request).await?;
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
