//! The gRPC command server, which virt-handler calls.
//!
//! The server first listens on the *uninitialized* socket. Renaming the socket to its ready name shows the pod's
//! readiness probe, and with it virt-controller, that the launcher can run a VM.

mod backup_and_checkpoint_requests;
mod command_service;
mod command_socket;
mod decode_requests;
mod get_vm_stats;
mod refusing_service;
mod response;
mod sev_launch_security;
mod vm_queries;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bounded_listener::GrpcServer;
use bounded_listener::limits::COMMAND_SOCKET;
use proto::cmd::info::cmd_info_server::{CmdInfo, CmdInfoServer};
use proto::cmd::v1::cmd_server::{Cmd, CmdServer};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use command_service::CommandService;
pub(crate) use refusing_service::{HandlerRequests, RefusingService};

use command_socket::{CommandListener, KeepTimes};

use crate::paths::Paths;

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
    /// The socket has disappeared.
    #[error("the command socket {path} has disappeared and cannot be made again: {source}")]
    Lost {
        /// The socket.
        path: PathBuf,
        /// Why it cannot be made.
        source: io::Error,
    },
}

/// A running command server.
pub(crate) struct CommandServer {
    socket: PathBuf,
    server: GrpcServer,
    replacements: mpsc::Sender<UnixListener>,
    /// Keeps the socket's file in place, once it has its ready name.
    keeper: Option<AbortOnDropHandle<io::Error>>,
}

impl CommandServer {
    /// Listens on the uninitialized socket and starts to answer requests.
    pub(crate) fn start(
        paths: &Paths,
        service: impl Cmd + CmdInfo + Clone,
    ) -> Result<CommandServer, CommandServerError> {
        let socket = paths.init_socket();
        let bound = CommandListener::bind(&socket);
        let (listener, replacements) = bound.map_err(|source| CommandServerError::Listen {
            path: socket.clone(),
            source,
        })?;
        let server = GrpcServer::start(listener, COMMAND_SOCKET, |server| {
            let commands = CmdServer::new(service.clone());
            server
                .add_service(CmdInfoServer::new(service))
                .add_service(commands.max_decoding_message_size(COMMAND_SOCKET.message_bytes))
        });
        Ok(CommandServer {
            socket,
            server,
            replacements,
            keeper: None,
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
        self.socket.clone_from(&ready);
        let replacements = self.replacements.clone();
        let keep =
            async move { command_socket::keep(&ready, replacements, KeepTimes::DEFAULT).await };
        self.keeper = Some(AbortOnDropHandle::new(tokio::spawn(keep)));
        Ok(())
    }

    /// Waits until the server fails.
    pub(crate) async fn failure(&mut self) -> anyhow::Error {
        let keeper = async {
            match &mut self.keeper {
                Some(keeper) => keeper.await.unwrap_or_else(io::Error::other),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            reason = self.server.failure() => {
                anyhow::anyhow!("the command server cannot go on: {reason}")
            }
            source = keeper => CommandServerError::Lost {
                path: self.socket.clone(),
                source,
            }
            .into(),
        }
    }

    /// Removes the socket, stops listening and waits for running requests. Takes less than a second.
    pub(crate) async fn stop(self) {
        // It would make the socket again.
        drop(self.keeper);
        let _ = fs::remove_file(&self.socket);
        self.server.stop(DRAIN_TIMEOUT).await;
    }
}
