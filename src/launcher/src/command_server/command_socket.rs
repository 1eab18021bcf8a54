//! The command server's socket. If its file disappears while the launcher runs, with its directory even, virt-handler can no
//! longer reach the VM: the socket is made again.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bounded_listener::Accept;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::{blocking, unix_listener};

/// How long looking for the file, or making it, may take.
const FILE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the file is looked for, and how long it may be impossible to make it.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeepTimes {
    pub(super) check_interval: Duration,
    pub(super) give_up_after: Duration,
}

impl KeepTimes {
    pub(super) const DEFAULT: KeepTimes = KeepTimes {
        check_interval: Duration::from_secs(10),
        give_up_after: Duration::from_secs(60),
    };
}

/// The listener, which is replaced when the socket was made again. Connections of the earlier one go on.
pub(super) struct CommandListener(Mutex<Listeners>);

struct Listeners {
    current: UnixListener,
    replacements: mpsc::Receiver<UnixListener>,
}

impl CommandListener {
    /// Listens at `path`. Makes its directory.
    pub(super) fn bind(path: &Path) -> io::Result<(CommandListener, mpsc::Sender<UnixListener>)> {
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
pub(super) async fn keep(
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
        std::fs::create_dir_all(directory)?;
    }
    unix_listener::bind(path)
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
        let keeper = async move { keep(&path, replacements, TIMES).await };
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
}
