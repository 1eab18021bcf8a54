//! Tests of the sending task with a real server.

mod recording_virt_handler;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use tonic::Status;

use super::*;
use recording_virt_handler::RecordingVirtHandler;

const RETRY_TIMES: RetryTimes = RetryTimes {
    first_pause: Duration::from_millis(10),
    max_pause: Duration::from_millis(20),
    give_up_after: Duration::from_millis(400),
};
const TEST_TIMEOUT: Duration = Duration::from_secs(5);

fn notifier(socket: &Path) -> Notifier {
    let involved_object = InvolvedObject {
        name: "vm1".into(),
        ..InvolvedObject::default()
    };
    Notifier::start(socket, involved_object, RETRY_TIMES)
}

#[tokio::test]
async fn notifications_arrive_in_order_when_the_server_starts_late() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("domain-notify-pipe.sock");
    let notifier = notifier(&socket);
    drop(notifier.domain_event(EventType::Added, false, b"1".to_vec()));
    drop(notifier.domain_event(EventType::Modified, false, b"2".to_vec()));
    notifier.warning(&Warning {
        reason: "HookFailed",
        message: "no".into(),
    });
    tokio::time::sleep(Duration::from_millis(60)).await;
    let handler = RecordingVirtHandler::default();
    handler.serve(&socket);
    assert!(notifier.flush(TEST_TIMEOUT).await);
    assert_eq!(
        handler.notifications(),
        ["ADDED 1", "MODIFIED 2", "\"HookFailed\" \"vm1\""]
    );
}

#[tokio::test]
async fn notification_is_sent_again_after_an_error_and_not_after_a_refusal() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let handler = RecordingVirtHandler::default();
    handler.serve(&socket);
    handler.answer_next([
        Err(Status::invalid_argument("no")),
        Err(Status::unavailable("later")),
        Ok("it cannot be handled"),
        Err(Status::internal("broken")),
    ]);
    let notifier = notifier(&socket);
    for event in [b"1", b"2", b"3"] {
        drop(notifier.domain_event(EventType::Modified, false, event.to_vec()));
    }
    assert!(notifier.flush(TEST_TIMEOUT).await);
    // The first one is tried twice and then refused, the second one three times.
    assert_eq!(handler.notifications(), ["MODIFIED 2", "MODIFIED 3"]);
}

/// What a server of HTTP/2 sends in answer to the first call (stream 1) before it closes the connection.
#[tokio::test]
async fn notification_is_sent_again_however_the_connection_ends() {
    const HEADERS_OF_STREAM_1: [u8; 6] = [1, 4, 0, 0, 0, 1];
    const GOAWAY: [u8; 9] = [0, 0, 8, 7, 0, 0, 0, 0, 0];
    const RST_STREAM: [u8; 9] = [0, 0, 4, 3, 0, 0, 0, 0, 1];
    const RESPONSE_HEADERS: &[u8] = &[
        0, 0, 14, 1, 4, 0, 0, 0, 1, 0x88, 0x5f, 0x8b, 0x1d, 0x75, 0xd0, 0x62, 0x0d, 0x26, 0x3d,
        0x4c, 0x4d, 0x65, 0x64,
    ];
    for (name, end) in [
        ("EOF", Vec::new()),
        (
            "GOAWAY NO_ERROR of nothing",
            [&GOAWAY[..], &[0; 8]].concat(),
        ),
        (
            "GOAWAY INTERNAL_ERROR",
            [&GOAWAY[..], &[0, 0, 0, 0, 0, 0, 0, 2]].concat(),
        ),
        (
            "GOAWAY NO_ERROR of stream 1",
            [&GOAWAY[..], &[0, 0, 0, 1, 0, 0, 0, 0]].concat(),
        ),
        (
            "RST_STREAM INTERNAL_ERROR",
            [&RST_STREAM[..], &[0, 0, 0, 2]].concat(),
        ),
        (
            "RST_STREAM REFUSED_STREAM",
            [&RST_STREAM[..], &[0, 0, 0, 7]].concat(),
        ),
        (
            "RST_STREAM CANCEL",
            [&RST_STREAM[..], &[0, 0, 0, 8]].concat(),
        ),
        ("headers of a response", RESPONSE_HEADERS.to_vec()),
        ("garbage", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let notifier = notifier(&socket);
        drop(notifier.domain_event(EventType::Modified, false, b"1".to_vec()));
        let (mut connection, _) = listener.accept().await.unwrap();
        connection
            .write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0])
            .await
            .unwrap();
        let mut request = Vec::new();
        while !request.windows(6).any(|part| part == HEADERS_OF_STREAM_1) {
            assert!(
                connection.read_buf(&mut request).await.unwrap() > 0,
                "{name}"
            );
        }
        connection.write_all(&end).await.unwrap();
        drop((connection, listener));
        std::fs::remove_file(&socket).unwrap();
        let handler = RecordingVirtHandler::default();
        handler.serve(&socket);
        assert!(notifier.flush(TEST_TIMEOUT).await, "{name}");
        assert_eq!(handler.notifications(), ["MODIFIED 1"], "{name}");
    }
}

/// tonic reports an `Unknown` status if the connection breaks during a call.
#[tokio::test]
async fn notification_is_sent_again_when_virt_handler_ends_before_it_answers() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let first = RecordingVirtHandler::stalled();
    let process = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    {
        let _entered = process.enter();
        first.serve(&socket);
    }
    let notifier = notifier(&socket);
    drop(notifier.domain_event(EventType::Modified, false, b"1".to_vec()));
    while first.notifications().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    std::fs::remove_file(&socket).unwrap();
    let second = RecordingVirtHandler::default();
    second.serve(&socket);
    process.shutdown_background();
    assert!(notifier.flush(TEST_TIMEOUT).await);
    assert_eq!(second.notifications(), ["MODIFIED 1"]);
}

#[tokio::test]
async fn notification_is_given_up_after_the_total_time() {
    let directory = tempfile::tempdir().unwrap();
    let notifier = notifier(&directory.path().join("nobody"));
    drop(notifier.domain_event(EventType::Modified, false, b"1".to_vec()));
    let started = Instant::now();
    assert!(notifier.flush(TEST_TIMEOUT).await);
    assert!(
        started.elapsed() >= Duration::from_millis(300),
        "{:?}",
        started.elapsed()
    );
    assert!(started.elapsed() < TEST_TIMEOUT);
}

#[tokio::test]
async fn flush_has_a_timeout() {
    let directory = tempfile::tempdir().unwrap();
    let notifier = notifier(&directory.path().join("nobody"));
    drop(notifier.domain_event(EventType::Modified, false, b"1".to_vec()));
    assert!(!notifier.flush(Duration::from_millis(30)).await);
}

#[tokio::test]
async fn late_server_gets_the_alive_state_and_not_the_earlier_off_state() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let notifier = notifier(&socket);
    let off = notifier.domain_event(EventType::Added, false, b"off".to_vec());
    notifier.warning(&Warning {
        reason: "HookFailed",
        message: "no".into(),
    });
    tokio::time::sleep(Duration::from_millis(60)).await;
    let alive = notifier.domain_event(EventType::Modified, true, b"alive".to_vec());
    tokio::time::sleep(Duration::from_millis(60)).await;
    let handler = RecordingVirtHandler::default();
    handler.serve(&socket);
    assert!(notifier.flush(TEST_TIMEOUT).await);
    assert_eq!(
        handler.notifications(),
        ["\"HookFailed\" \"vm1\"", "MODIFIED alive"]
    );
    assert_eq!(off.await.unwrap(), Delivery::Accepted);
    assert_eq!(alive.await.unwrap(), Delivery::Accepted);
}

#[tokio::test]
async fn retry_now_ends_the_pause_before_the_next_attempt() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let long = Duration::from_secs(3600);
    let retry_times = RetryTimes {
        first_pause: long,
        max_pause: long,
        give_up_after: long * 2,
    };
    let notifier = Notifier::start(&socket, InvolvedObject::default(), retry_times);
    drop(notifier.domain_event(EventType::Modified, true, b"1".to_vec()));
    tokio::time::sleep(Duration::from_millis(60)).await;
    let handler = RecordingVirtHandler::default();
    handler.serve(&socket);
    notifier.retry_now();
    assert!(notifier.flush(TEST_TIMEOUT).await);
    assert_eq!(handler.notifications(), ["MODIFIED 1"]);
}

#[tokio::test]
async fn slow_virt_handler_gets_the_newest_state_and_not_all_earlier_ones() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let handler = RecordingVirtHandler::slow(Duration::from_millis(20));
    handler.serve(&socket);
    let notifier = notifier(&socket);
    for event in 0..300 {
        let json = format!("{event}").into_bytes();
        drop(notifier.domain_event(EventType::Modified, true, json));
    }
    assert!(notifier.flush(TEST_TIMEOUT).await);
    let sent = handler.notifications();
    assert!(sent.len() < 50, "{sent:?}");
    assert_eq!(sent.last().unwrap(), "MODIFIED 299");
}

#[test]
fn warning_is_encoded_as_a_kubernetes_event() {
    let involved = InvolvedObject {
        name: "vm1".into(),
        namespace: "default".into(),
        uid: "1234".into(),
    };
    let encode = |severity: Severity| -> serde_json::Value {
        let json = severity.event_json("HookDenied", "hook policy refuses", &involved);
        serde_json::from_slice(&json).unwrap()
    };
    assert_eq!(encode(Severity::Normal)["type"], "Normal");
    let json = encode(Severity::Warning);
    assert_eq!(json["involvedObject"]["kind"], "VirtualMachineInstance");
    assert_eq!(json["involvedObject"]["apiVersion"], "kubevirt.io/v1");
    assert_eq!(json["involvedObject"]["uid"], "1234");
    assert_eq!(json["type"], "Warning");
    assert_eq!(json["reason"], "HookDenied");
    assert!(json["metadata"]["creationTimestamp"].is_null());
}
