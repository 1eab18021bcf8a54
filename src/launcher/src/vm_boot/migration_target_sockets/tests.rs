//! Tests of the sockets of a migration's target, and of the copied data.
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

#[tokio::test]
async fn unix_transport_makes_only_the_directory_and_removes_sockets_of_qemu() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("share/migrationproxy");
    let mut sockets = MigrationTargetSockets::default();
    for _ in 0..2 {
        let prepared = sockets.prepare(&directory, "1234", MigrationTransport::Unix);
        prepared.await.unwrap();
    }
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    // The socket of QEMU, which leaves it when it is killed.
    std::fs::write(directory.join("1234-49152-source.sock"), "").unwrap();
    drop(sockets);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
}

#[tokio::test]
async fn repeated_preparation_keeps_listeners() {
    let root = tempfile::tempdir().unwrap();
    let path = |port| root.path().join(format!("1234-{port}-source.sock"));
    let mut sockets = MigrationTargetSockets::default();
    let transport = |with_disks| MigrationTransport::Loopback { with_disks };
    let inode = |port| {
        use std::os::unix::fs::MetadataExt;
        path(port).metadata().unwrap().ino()
    };
    sockets
        .prepare(root.path(), "1234", transport(false))
        .await
        .unwrap();
    let first = inode(49152);
    // A stale file in place of the second socket must not prevent it.
    std::fs::write(root.path().join("1234-49153-source.sock"), "").unwrap();
    sockets
        .prepare(root.path(), "1234", transport(true))
        .await
        .unwrap();
    assert_eq!(inode(49152), first);
    for port in [49152, 49153] {
        UnixStream::connect(path(port)).await.unwrap();
    }
    sockets
        .prepare(root.path(), "5678", transport(false))
        .await
        .unwrap();
    assert!(UnixStream::connect(path(49152)).await.is_err());
}

#[tokio::test]
async fn listener_is_kept_when_another_cannot_be_made() {
    let root = tempfile::tempdir().unwrap();
    let path = |port| root.path().join(format!("1234-{port}-source.sock"));
    let mut sockets = MigrationTargetSockets::default();
    let transport = |with_disks| MigrationTransport::Loopback { with_disks };
    let prepared = sockets.prepare(root.path(), "1234", transport(false));
    prepared.await.unwrap();
    std::fs::create_dir(path(49153)).unwrap();
    let prepared = sockets.prepare(root.path(), "1234", transport(true)).await;
    let error = prepared.unwrap_err().to_string();
    assert!(error.contains("1234-49153-source.sock"), "{error}");
    UnixStream::connect(path(49152)).await.unwrap();
    std::fs::remove_dir(path(49153)).unwrap();
    let prepared = sockets.prepare(root.path(), "1234", transport(true));
    prepared.await.unwrap();
    UnixStream::connect(path(49153)).await.unwrap();
    // A socket that was removed is made again.
    std::fs::remove_file(path(49152)).unwrap();
    let prepared = sockets.prepare(root.path(), "1234", transport(true));
    prepared.await.unwrap();
    for port in [49152, 49153] {
        UnixStream::connect(path(port)).await.unwrap();
    }
}

#[tokio::test]
async fn connection_is_piped_to_the_port() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("x.sock");
    let qemu = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = qemu.local_addr().unwrap().port();
    let socket = unix_listener::bind(&path).unwrap();
    let _listener = listen(path.clone(), port, socket).unwrap();
    let mut source = UnixStream::connect(&path).await.unwrap();
    let (mut target, _) = qemu.accept().await.unwrap();
    source.write_all(b"memory").await.unwrap();
    source.shutdown().await.unwrap();
    let mut received = Vec::new();
    target.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, b"memory");
    target.write_all(b"done").await.unwrap();
    drop(target);
    received.clear();
    source.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, b"done");
}

#[tokio::test]
async fn idle_clients_do_not_end_a_connection_that_has_sent_data() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).unwrap();
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("x.sock");
    let qemu = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = qemu.local_addr().unwrap().port();
    let socket = unix_listener::bind(&path).unwrap();
    let _listener = listen(path.clone(), port, socket).unwrap();
    let mut source = UnixStream::connect(&path).await.unwrap();
    source.write_all(b"mem").await.unwrap();
    let (mut target, _) = qemu.accept().await.unwrap();
    let mut received = [0; 3];
    target.read_exact(&mut received).await.unwrap();
    let _accepting = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok(connection) = qemu.accept().await {
            held.push(connection);
        }
    });
    let mut idle = Vec::new();
    for _ in 0..600 {
        idle.push(UnixStream::connect(&path).await.unwrap());
    }
    // The first of them is closed, since there are too many.
    assert_eq!(idle[0].read(&mut [0]).await.unwrap(), 0);
    source.write_all(b"ory").await.unwrap();
    target.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"ory");
}

#[tokio::test]
async fn error_contains_the_path_of_a_directory_that_cannot_be_created() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let directory = file.path().join("migrationproxy");
    let mut sockets = MigrationTargetSockets::default();
    let error = sockets
        .prepare(&directory, "1234", MigrationTransport::Unix)
        .await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("migrationproxy"), "{error}");
}
