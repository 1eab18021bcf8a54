//! Listeners that serve each connection in a task of its own.

use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use crate::connection_table::{ConnectionHandle, OpenConnections};
use crate::grpc_server::{Accept, Acceptor};
use crate::limits::Limits;

/// A listener. Dropping it closes its socket and its connections, but leaves the file of a UNIX socket.
#[derive(Debug)]
pub struct ByteListener {
    _task: AbortOnDropHandle<()>,
}

impl ByteListener {
    /// Serves the connections of a listener. Needs a tokio runtime.
    pub fn serve<L, F>(
        listener: L,
        limits: Limits,
        serve: impl FnMut(L::Connection, ConnectionHandle) -> F + Send + 'static,
    ) -> ByteListener
    where
        L: Accept,
        F: Future<Output = ()> + Send + 'static,
    {
        let accepting = serve_connections(listener, limits, serve);
        ByteListener {
            _task: AbortOnDropHandle::new(tokio::spawn(accepting)),
        }
    }
}

async fn serve_connections<L, F>(
    listener: L,
    limits: Limits,
    mut serve: impl FnMut(L::Connection, ConnectionHandle) -> F,
) where
    L: Accept,
    F: Future<Output = ()> + Send + 'static,
{
    let connections = OpenConnections::new(limits);
    let mut tasks = JoinSet::new();
    let mut acceptor = Acceptor::new(listener, limits.what);
    loop {
        tokio::select! {
            connection = acceptor.next() => {
                let guard = connections.admit();
                let served = serve(connection, guard.handle().clone());
                tasks.spawn(async move {
                    guard.handle().closed().clone().run_until_cancelled(served).await;
                });
            }
            Some(ended) = tasks.join_next() => if let Err(error) = ended {
                tracing::error!(reason = %error, socket = limits.what, "serving a connection failed");
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{UnixListener, UnixStream};

    use super::*;

    const LIMITS: Limits = Limits {
        what: "a test",
        connections: 2,
    };

    #[tokio::test]
    async fn new_client_is_served_in_place_of_the_one_that_was_idle_longest() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let serve = |mut connection: UnixStream, handle: ConnectionHandle| async move {
            connection.write_all(b"x").await.unwrap();
            let mut running = None;
            while connection.read_u8().await.is_ok() {
                running = Some(handle.running());
                connection.write_all(b"y").await.unwrap();
            }
            drop(running);
        };
        let listener = ByteListener::serve(UnixListener::bind(&path).unwrap(), LIMITS, serve);
        let connect = async || {
            let mut client = UnixStream::connect(&path).await.unwrap();
            assert_eq!(client.read_u8().await.unwrap(), b'x');
            client
        };
        let mut working = connect().await;
        working.write_all(b"w").await.unwrap();
        assert_eq!(working.read_u8().await.unwrap(), b'y');
        let mut idle = connect().await;
        let mut newest = connect().await;
        assert!(idle.read_u8().await.is_err());
        working.write_all(b"w").await.unwrap();
        assert_eq!(working.read_u8().await.unwrap(), b'y');
        drop(listener);
        assert!(newest.read_u8().await.is_err());
        assert!(UnixStream::connect(&path).await.is_err());
    }
}
