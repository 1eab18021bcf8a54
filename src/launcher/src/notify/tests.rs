#![allow(clippy::unwrap_used)]
//! The sending task against a real server.

use std::sync::{Arc, Mutex};

use proto::notify::info::notify_info_server::{NotifyInfo, NotifyInfoServer};
use proto::notify::info::{NotifyInfoRequest, NotifyInfoResponse};
use proto::notify::v1::Response as Answer;
use proto::notify::v1::notify_server::{Notify, NotifyServer};
use tokio::net::UnixListener;
use tokio::time::Instant;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

use super::*;

/// A virt-handler that records its notifications.
#[derive(Clone, Default)]
struct Handler {
    /// It takes a notification and never answers.
    is_stalled: bool,
    /// How long it takes for a domain event.
    pause: Duration,
    notifications: Arc<Mutex<Vec<String>>>,
    failures: Arc<Mutex<Vec<Status>>>,
}

impl Handler {
    fn record(&self, what: String) -> Result<Response<Answer>, Status> {
        if let Some(status) = self.failures.lock().unwrap().pop() {
            return Err(status);
        }
        self.notifications.lock().unwrap().push(what);
        Ok(Response::new(Answer {
            success: true,
            message: String::new(),
        }))
    }

    fn serve(&self, socket: &Path) {
        let listener = UnixListener::bind(socket).unwrap();
        let server = tonic::transport::Server::builder()
            .add_service(NotifyInfoServer::new(self.clone()))
            .add_service(NotifyServer::new(self.clone()));
        tokio::spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
    }

    fn notifications(&self) -> Vec<String> {
        self.notifications.lock().unwrap().clone()
    }
}

#[tonic::async_trait]
impl NotifyInfo for Handler {
    async fn info(
        &self,
        _: Request<NotifyInfoRequest>,
    ) -> Result<Response<NotifyInfoResponse>, Status> {
        Ok(Response::new(NotifyInfoResponse {
            supported_notify_versions: vec![1],
        }))
    }
}

#[tonic::async_trait]
impl Notify for Handler {
    async fn handle_domain_event(
        &self,
        request: Request<DomainEventRequest>,
    ) -> Result<Response<Answer>, Status> {
        let request = request.into_inner();
        let json = String::from_utf8(request.domain_json).unwrap();
        let answer = self.record(format!("{} {json}", request.event_type));
        tokio::time::sleep(self.pause).await;
        if self.is_stalled {
            std::future::pending::<()>().await;
        }
        answer
    }

    async fn handle_k8s_event(
        &self,
        request: Request<K8sEventRequest>,
    ) -> Result<Response<Answer>, Status> {
        let json: serde_json::Value =
            serde_json::from_slice(&request.into_inner().event_json).unwrap();
        self.record(format!(
            "{} {}",
            json["reason"], json["involvedObject"]["name"]
        ))
    }
}

const RETRY: Retry = Retry {
    first: Duration::from_millis(10),
    interval: Duration::from_millis(20),
    total: Duration::from_millis(400),
};
const SOON: Duration = Duration::from_secs(5);

fn notifier(socket: &Path) -> Notifier {
    let about = InvolvedObject {
        name: "vm1".into(),
        ..InvolvedObject::default()
    };
    Notifier::start(socket, about, RETRY)
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
    let handler = Handler::default();
    handler.serve(&socket);
    assert!(notifier.flush(SOON).await);
    assert_eq!(
        handler.notifications(),
        ["ADDED 1", "MODIFIED 2", "\"HookFailed\" \"vm1\""]
    );
}

#[tokio::test]
async fn transient_errors_reconnect_and_refusals_are_not_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let handler = Handler::default();
    handler.serve(&socket);
    handler
        .failures
        .lock()
        .unwrap()
        .extend([Status::invalid_argument("no"), Status::unavailable("later")]);
    let notifier = notifier(&socket);
    for event in [b"1", b"2", b"3"] {
        drop(notifier.domain_event(EventType::Modified, false, event.to_vec()));
    }
    assert!(notifier.flush(SOON).await);
    // The first is tried twice and then refused for good; the others go through.
    assert_eq!(handler.notifications(), ["MODIFIED 2", "MODIFIED 3"]);
}

/// tonic calls a connection that breaks during a call an unknown error.
#[tokio::test]
async fn notification_is_sent_again_when_virt_handler_ends_before_it_answers() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let first = Handler {
        is_stalled: true,
        ..Handler::default()
    };
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
    let second = Handler::default();
    second.serve(&socket);
    process.shutdown_background();
    assert!(notifier.flush(SOON).await);
    assert_eq!(second.notifications(), ["MODIFIED 1"]);
}

#[tokio::test]
async fn notification_is_given_up_after_the_total_time() {
    let directory = tempfile::tempdir().unwrap();
    let notifier = notifier(&directory.path().join("nobody"));
    drop(notifier.domain_event(EventType::Modified, false, b"1".to_vec()));
    let started = Instant::now();
    assert!(notifier.flush(SOON).await);
    assert!(
        started.elapsed() >= Duration::from_millis(300),
        "{:?}",
        started.elapsed()
    );
    assert!(started.elapsed() < SOON);
}

#[tokio::test]
async fn flush_has_a_deadline() {
    let directory = tempfile::tempdir().unwrap();
    let notifier = notifier(&directory.path().join("nobody"));
    drop(notifier.domain_event(EventType::Modified, false, b"1".to_vec()));
    assert!(!notifier.flush(Duration::from_millis(30)).await);
}

#[tokio::test]
async fn a_late_server_learns_that_the_domain_is_alive_and_not_that_it_was_off() {
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
    let handler = Handler::default();
    handler.serve(&socket);
    assert!(notifier.flush(SOON).await);
    assert_eq!(
        handler.notifications(),
        ["\"HookFailed\" \"vm1\"", "MODIFIED alive"]
    );
    assert_eq!(off.await.unwrap(), Delivery::Accepted);
    assert_eq!(alive.await.unwrap(), Delivery::Accepted);
}

#[tokio::test]
async fn a_request_ends_the_pause_before_the_next_attempt() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let long = Duration::from_secs(3600);
    let retry = Retry {
        first: long,
        interval: long,
        total: long * 2,
    };
    let notifier = Notifier::start(&socket, InvolvedObject::default(), retry);
    drop(notifier.domain_event(EventType::Modified, true, b"1".to_vec()));
    tokio::time::sleep(Duration::from_millis(60)).await;
    let handler = Handler::default();
    handler.serve(&socket);
    notifier.retry_now();
    assert!(notifier.flush(SOON).await);
    assert_eq!(handler.notifications(), ["MODIFIED 1"]);
}

#[tokio::test]
async fn slow_virt_handler_is_sent_the_newest_state_and_not_all_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let handler = Handler {
        pause: Duration::from_millis(20),
        ..Handler::default()
    };
    handler.serve(&socket);
    let notifier = notifier(&socket);
    for event in 0..300 {
        let json = format!("{event}").into_bytes();
        drop(notifier.domain_event(EventType::Modified, true, json));
    }
    assert!(notifier.flush(SOON).await);
    let sent = handler.notifications();
    assert!(sent.len() < 50, "{sent:?}");
    assert_eq!(sent.last().unwrap(), "MODIFIED 299");
}
