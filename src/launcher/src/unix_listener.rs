//! Listeners on UNIX sockets that serve each connection in a task of its own.

use std::io;
use std::os::unix::net;
use std::path::Path;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

/// The pause after an error of accepting, such as too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// A listener. Dropping it closes its socket and its connections, but leaves the socket's file.
#[derive(Debug)]
pub(crate) struct Listener {
    _task: AbortOnDropHandle<()>,
}

/// Creates a socket at `path`. Replaces a socket that an earlier listener has left there. Blocking.
///
/// # Errors
/// If the socket cannot be created.
pub(crate) fn bind(path: &Path) -> io::Result<net::UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = net::UnixListener::bind(path)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl Listener {
    /// Listens on a socket that [`bind`] has created, and serves at most `limit` connections at a time. `what` names
    /// the connections in log lines.
    ///
    /// # Errors
    /// If the socket cannot be registered with the async runtime.
    pub(crate) fn serve<F>(
        socket: net::UnixListener,
        what: &'static str,
        limit: Option<usize>,
        serve: impl FnMut(UnixStream) -> F + Send + 'static,
    ) -> io::Result<Listener>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let accepting = accept(UnixListener::from_std(socket)?, what, limit, serve);
        Ok(Listener {
            _task: AbortOnDropHandle::new(tokio::spawn(accepting)),
        })
    }
}

async fn accept<F>(
    listener: UnixListener,
    what: &'static str,
    limit: Option<usize>,
    mut serve: impl FnMut(UnixStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let is_free = limit.is_none_or(|limit| connections.len() < limit);
        tokio::select! {
            accepted = listener.accept(), if is_free => match accepted {
                Ok((connection, _)) => {
                    connections.spawn(serve(connection));
                }
                Err(error) => {
                    tracing::warn!(reason = %error, "accepting {what}");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn connection_above_the_limit_is_served_after_another_ended() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        std::fs::write(&path, "of an earlier listener").unwrap();
        let serve = |mut connection: UnixStream| async move {
            connection.write_all(b"x").await.unwrap();
            drop(connection.read_u8().await);
        };
        let listener = Listener::serve(bind(&path).unwrap(), "a test", Some(1), serve).unwrap();
        let mut first = UnixStream::connect(&path).await.unwrap();
        assert_eq!(first.read_u8().await.unwrap(), b'x');
        let mut second = UnixStream::connect(&path).await.unwrap();
        let early = tokio::time::timeout(Duration::from_millis(20), second.read_u8());
        assert!(early.await.is_err());
        drop(first);
        assert_eq!(second.read_u8().await.unwrap(), b'x');
        drop(listener);
        assert!(second.read_u8().await.is_err());
        assert!(UnixStream::connect(&path).await.is_err());
    }
}
