//! The gRPC command server, which virt-handler calls.
//!
//! The server first listens on the *uninitialized* socket. Renaming the socket to its ready name shows the pod's
//! readiness probe, and with it virt-controller, that the launcher can run a VM.

mod backup_requests;
mod command_service;
mod decode_requests;
mod launch_security;
mod refusing_service;
mod vm_queries;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fs, io};

use bounded_listener::limits::COMMAND_SOCKET;
use bounded_listener::{Accept, GrpcServer};
use proto::cmd::info::cmd_info_server::{CmdInfo, CmdInfoServer};
use proto::cmd::v1::Response as Answer;
use proto::cmd::v1::cmd_server::{Cmd, CmdServer};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Response, Status};

use crate::manager::CommandResult;
use crate::paths::Paths;
use crate::{blocking, unix_listener};
pub(crate) use command_service::CommandService;
pub(crate) use refusing_service::{HandlerRequests, RefusingService};

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
        let keep = async move { keep_socket(&ready, replacements, KeepTimes::DEFAULT).await };
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

// The command server's socket. If its file disappears while the launcher runs, with its directory even, virt-handler can no
// longer reach the VM: the socket is made again.

/// How long looking for the file, or making it, may take.
const FILE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the file is looked for, and how long it may be impossible to make it.
#[derive(Debug, Clone, Copy)]
struct KeepTimes {
    check_interval: Duration,
    give_up_after: Duration,
}

impl KeepTimes {
    const DEFAULT: KeepTimes = KeepTimes {
        check_interval: Duration::from_secs(10),
        give_up_after: Duration::from_secs(60),
    };
}

/// The listener, which is replaced when the socket was made again. Connections of the earlier one go on.
struct CommandListener(Mutex<Listeners>);

struct Listeners {
    current: UnixListener,
    replacements: mpsc::Receiver<UnixListener>,
}

impl CommandListener {
    /// Listens at `path`. Makes its directory.
    fn bind(path: &Path) -> io::Result<(CommandListener, mpsc::Sender<UnixListener>)> {
        let current = UnixListener::from_std(bind(path)?)?;
        let (sender, replacements) = mpsc::channel(1);
        let listeners = Listeners {
            current,
            replacements,
        };
        Ok((CommandListener(Mutex::new(listeners)), sender))
    }
}

impl Accept for CommandListener {
    type Connection = UnixStream;

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Poll::Ready(Some(listener)) = listeners.replacements.poll_recv(context) {
            listeners.current = listener;
        }
        Accept::poll_accept(&listeners.current, context)
    }
}

/// Makes the socket at `path` again whenever its file is missing. Returns the reason when that has been impossible for too
/// long.
async fn keep_socket(
    path: &Path,
    replacements: mpsc::Sender<UnixListener>,
    times: KeepTimes,
) -> io::Error {
    let mut failing_since = None;
    loop {
        tokio::time::sleep(times.check_interval).await;
        match make_if_missing(path).await {
            Ok(None) => failing_since = None,
            Ok(Some(listener)) => {
                failing_since = None;
                tracing::warn!(socket = %path.display(), "the command socket had disappeared and was made again");
                // Fails only when the server has ended.
                let _ = replacements.send(listener).await;
            }
            Err(error) => {
                if failing_since.is_none() {
                    tracing::error!(
                        socket = %path.display(),
                        reason = %error,
                        "the command socket has disappeared and cannot be made again"
                    );
                }
                let since: Instant = *failing_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= times.give_up_after {
                    return error;
                }
            }
        }
    }
}

async fn make_if_missing(path: &Path) -> io::Result<Option<UnixListener>> {
    let path = path.to_owned();
    let make = move || match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => bind(&path).map(Some),
        Err(error) => Err(error),
        Ok(_) => Ok(None),
    };
    let made = blocking::file_call("looking for the command socket", FILE_TIMEOUT, make).await;
    made.map_err(io::Error::other)??
        .map(UnixListener::from_std)
        .transpose()
}

fn bind(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    unix_listener::bind(path)
}

/// The message of a failure without a reason.
const NO_REASON: &str = "the command failed, and the reason is empty";

/// The result of a method of the service.
type Reply<T> = Result<Response<T>, Status>;

fn ok() -> Answer {
    Answer {
        success: true,
        message: String::new(),
    }
}

/// The response to a failed command. Its message is never empty: virt-handler of v1.10 takes a failure without a
/// message for a success.
fn failed(message: impl ToString) -> Answer {
    let message = message.to_string();
    Answer {
        success: false,
        message: match message.trim() {
            "" => NO_REASON.to_owned(),
            _ => message,
        },
    }
}

/// The response to a command. It is not logged here, since the driver has logged the outcome with the request's number.
fn outcome(outcome: CommandResult) -> Answer {
    match outcome {
        Ok(_) => ok(),
        Err(error) => failed(error.message()),
    }
}

fn reply<T>(message: T) -> Reply<T> {
    Ok(Response::new(message))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use bounded_listener::{ByteListener, limits};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_util::task::AbortOnDropHandle;

    use super::*;

    const TIMES: KeepTimes = KeepTimes {
        check_interval: Duration::from_millis(10),
        give_up_after: Duration::from_millis(50),
    };

    /// A socket whose server sends back what it receives, and the task that keeps the socket.
    fn serve(path: &Path) -> (ByteListener, AbortOnDropHandle<io::Error>) {
        let (listener, replacements) = CommandListener::bind(path).unwrap();
        let echo = |mut connection: UnixStream, _| async move {
            let (mut read, mut write) = connection.split();
            let _ = tokio::io::copy(&mut read, &mut write).await;
        };
        let path = PathBuf::from(path);
        let keeper = async move { keep_socket(&path, replacements, TIMES).await };
        (
            ByteListener::serve(listener, limits::MIGRATION_HOOK, echo),
            AbortOnDropHandle::new(tokio::spawn(keeper)),
        )
    }

    async fn assert_answered(client: &mut UnixStream) {
        client.write_all(b"x").await.unwrap();
        assert_eq!(client.read_u8().await.unwrap(), b'x');
    }

    #[tokio::test]
    async fn socket_whose_directory_was_removed_is_made_again_and_earlier_clients_go_on() {
        let temp_dir = tempfile::tempdir().unwrap();
        let path = temp_dir.path().join("sockets/launcher-sock");
        let (_listener, _keeper) = serve(&path);
        let mut earlier = UnixStream::connect(&path).await.unwrap();
        assert_answered(&mut earlier).await;
        for _ in 0..3 {
            fs::remove_dir_all(path.parent().unwrap()).unwrap();
            let deadline = Instant::now() + Duration::from_secs(30);
            let mut later = loop {
                match UnixStream::connect(&path).await {
                    Ok(client) => break client,
                    Err(error) => assert!(Instant::now() < deadline, "{error}"),
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            };
            assert_answered(&mut later).await;
            assert_answered(&mut earlier).await;
        }
    }

    #[tokio::test]
    async fn socket_that_cannot_be_made_again_is_given_up_with_the_reason() {
        let temp_dir = tempfile::tempdir().unwrap();
        let path = temp_dir.path().join("sockets/launcher-sock");
        let (_listener, keeper) = serve(&path);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path.parent().unwrap(), "a file in place of the directory").unwrap();
        let reason = tokio::time::timeout(Duration::from_secs(30), keeper);
        let reason = reason.await.unwrap().unwrap();
        assert_eq!(reason.kind(), io::ErrorKind::NotADirectory, "{reason}");
    }

    #[test]
    fn a_failure_has_a_message() {
        for (reason, message) in [("", NO_REASON), (" \n", NO_REASON), ("no disk", "no disk")] {
            assert_eq!(
                failed(reason),
                Answer {
                    success: false,
                    message: message.to_owned()
                }
            );
        }
    }
}
