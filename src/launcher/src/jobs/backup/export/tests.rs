//! Tests of the tunnel to the export server.

use hyper::server;
use hyper::service::service_fn;
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::oneshot;

use super::*;
use crate::jobs::backup::export::serve_in;
use crate::jobs::running_test_vm::TEST_TIMEOUT;

/// The export server at the far end of a connection. It accepts the tunnel, and returns when the connection has ended.
async fn accept_tunnel(connection: DuplexStream, opened: oneshot::Sender<TokioIo<Upgraded>>) {
    let opened = std::sync::Mutex::new(Some(opened));
    let service = service_fn(move |request| {
        let opened = opened.lock().unwrap().take().unwrap();
        tokio::spawn(async move {
            let tunnel = hyper::upgrade::on(request).await.unwrap();
            drop(opened.send(TokioIo::new(tunnel)));
        });
        async { Ok::<_, std::convert::Infallible>(http::Response::new(String::new())) }
    });
    let served = server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(connection), service);
    // The result depends on how the connection was closed, which does not matter here.
    drop(served.await);
}

#[tokio::test]
async fn connection_is_closed_when_serving_is_aborted() {
    let (near, far) = tokio::io::duplex(64 << 10);
    let (opened, tunnel) = oneshot::channel();
    let peer = tokio::spawn(accept_tunnel(far, opened));
    let near = open_on(near, "export:443".into()).await.unwrap();
    let serving = tokio::spawn(async move { serve_in(near, "/nonexistent".as_ref()).await });
    let mut tunnel = tunnel.await.unwrap();
    let mut settings = [0; 9];
    tunnel.read_exact(&mut settings).await.unwrap();
    serving.abort();
    tokio::time::timeout(TEST_TIMEOUT, peer)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn peer_may_have_few_calls_open_at_a_time() {
    const SETTINGS: u8 = 4;
    const MAX_CONCURRENT_STREAMS: u16 = 3;
    let (near, far) = tokio::io::duplex(64 << 10);
    let (opened, tunnel) = oneshot::channel();
    let _peer = tokio::spawn(accept_tunnel(far, opened));
    let near = open_on(near, "export:443".into()).await.unwrap();
    let _serving = tokio::spawn(async move { serve_in(near, "/nonexistent".as_ref()).await });
    let mut tunnel = tunnel.await.unwrap();
    let mut frame = [0; 9];
    tunnel.read_exact(&mut frame).await.unwrap();
    assert_eq!(frame[3], SETTINGS);
    let mut settings = vec![0; usize::from(frame[2])];
    tunnel.read_exact(&mut settings).await.unwrap();
    let calls = settings.chunks(6).find_map(|setting| match *setting {
        [a, b, c, d, e, f] if u16::from_be_bytes([a, b]) == MAX_CONCURRENT_STREAMS => {
            Some(u32::from_be_bytes([c, d, e, f]))
        }
        _ => None,
    });
    assert_eq!(calls, Some(limits::BACKUP_EXPORT_CALLS));
}

#[tokio::test]
async fn connection_of_a_peer_that_does_not_read_is_closed() {
    let (near, far) = tokio::io::duplex(64 << 10);
    let (opened, tunnel) = oneshot::channel();
    let peer = accept_tunnel(far, opened);
    tokio::pin!(peer);
    let opening = async {
        let near = open_on(near, "export:443".into()).await.unwrap();
        (near, tunnel.await.unwrap())
    };
    let (near, _tunnel) = tokio::select! {
        both = opening => both,
        () = &mut peer => panic!("the connection has ended"),
    };
    // From here on the peer is not polled, so that it reads nothing.
    let mut stream = near.stream;
    let writing = tokio::spawn(async move {
        while stream.write_all(&[0; 16 << 10]).await.is_ok() {
            tokio::task::yield_now().await;
        }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!writing.is_finished());
    drop(near.connection);
    tokio::time::timeout(TEST_TIMEOUT, writing)
        .await
        .unwrap()
        .unwrap();
    tokio::time::timeout(TEST_TIMEOUT, peer).await.unwrap();
}

#[test]
fn address_without_a_port_gets_the_port_of_https() {
    for (address, expected) in [
        ("export.ns.svc", "export.ns.svc:443"),
        ("export.ns.svc:8443", "export.ns.svc:8443"),
        ("10.0.0.1:1", "10.0.0.1:1"),
        ("fd00::1", "[fd00::1]:443"),
        ("fd00::a:1", "[fd00::a:1]:443"),
        ("[fd00::1]:8443", "[fd00::1]:8443"),
    ] {
        assert_eq!(host_port(address), expected);
    }
}
