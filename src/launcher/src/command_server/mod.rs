//! The gRPC command server, which virt-handler calls.
//!
//! The server first listens on the *uninitialized* socket. Renaming the socket to its ready name shows the pod's
//! readiness probe, and with it virt-controller, that the launcher can run a VM.

mod backup_and_checkpoint_requests;
mod command_service;
mod decode_requests;
mod get_vm_stats;
mod http2_authority_filter;
mod http2_authority_filter_stream;
mod response;
mod sev_launch_security;
mod vm_queries;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bounded_listener::{GrpcListener, limits};
use proto::cmd::info::cmd_info_server::CmdInfoServer;
use proto::cmd::v1::cmd_server::CmdServer;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

pub(crate) use command_service::CommandService;

use http2_authority_filter_stream::AuthorityFilterStream;

use crate::paths::Paths;

/// Maximum size of a request. A VMI may have 4 MiB, plus the options.
const MAX_REQUEST_BYTES: usize = 6 << 20;
/// How long running requests may take when the launcher ends.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// The command server's socket could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandServerError {
    /// Listening on the socket failed.
    #[error("listening on {path}: {source}; is the directory shared with virt-handler writable?")]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Why listening failed.
        source: io::Error,
    },
    /// The socket could not be renamed to its ready name.
    #[error("renaming {from} to {to}: {source}")]
    Rename {
        /// The uninitialized name.
        from: PathBuf,
        /// The ready name.
        to: PathBuf,
        /// Why renaming failed.
        source: io::Error,
    },
}

/// A running command server.
pub(crate) struct CommandServer {
    socket: PathBuf,
    stop: CancellationToken,
    grpc: GrpcListener,
    server_task: JoinHandle<()>,
}

impl CommandServer {
    /// Listens on the uninitialized socket and starts to answer requests.
    pub(crate) fn start(
        paths: &Paths,
        service: CommandService,
    ) -> Result<CommandServer, CommandServerError> {
        let socket = paths.init_socket();
        let listener = listen(&socket).map_err(|source| CommandServerError::Listen {
            path: socket.clone(),
            source,
        })?;
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let grpc = GrpcListener::new(limits::COMMAND_SOCKET, MAX_REQUEST_BYTES);
        let server = grpc
            .server()
            .add_service(CmdInfoServer::new(service.clone()))
            .add_service(CmdServer::new(service).max_decoding_message_size(MAX_REQUEST_BYTES));
        let clients = grpc
            .incoming(listener)
            .map(|client| client.map(AuthorityFilterStream::new));
        let server_task = server.serve_with_incoming_shutdown(clients, stopped);
        let server_task = tokio::spawn(async move {
            if let Err(error) = server_task.await {
                tracing::error!(reason = %error, "the command server ended");
            }
        });
        Ok(CommandServer {
            socket,
            stop,
            grpc,
            server_task,
        })
    }

    /// Renames the socket to its ready name.
    pub(crate) fn mark_ready(&mut self, paths: &Paths) -> Result<(), CommandServerError> {
        let ready = paths.ready_socket();
        fs::rename(&self.socket, &ready).map_err(|source| CommandServerError::Rename {
            from: self.socket.clone(),
            to: ready.clone(),
            source,
        })?;
        self.socket = ready;
        Ok(())
    }

    /// Stops listening, waits for running requests, and removes the socket.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.grpc.drain(DRAIN_TIMEOUT).await;
        if let Err(error) = self.server_task.await {
            tracing::error!(reason = %error, "the command server failed");
        }
        let _ = fs::remove_file(&self.socket);
    }
}

fn listen(socket: &Path) -> io::Result<UnixListener> {
    if let Some(directory) = socket.parent() {
        fs::create_dir_all(directory)?;
    }
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(socket)
}
