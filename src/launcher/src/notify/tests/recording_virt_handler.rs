//! A virt-handler that records the notifications that it receives.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto::notify::info::notify_info_server::{NotifyInfo, NotifyInfoServer};
use proto::notify::info::{NotifyInfoRequest, NotifyInfoResponse};
use proto::notify::v1::notify_server::{Notify, NotifyServer};
use proto::notify::v1::{DomainEventRequest, K8sEventRequest, Response as Answer};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

/// A virt-handler that records its notifications.
#[derive(Clone, Default)]
pub(super) struct RecordingVirtHandler {
    /// Whether notifications are received and never answered.
    is_stalled: bool,
    /// How long the answer to a domain event takes.
    pause: Duration,
    /// The received notifications, as text.
    notifications: Arc<Mutex<Vec<String>>>,
    /// The results of the next calls, the last one first: an error, or why the notification is refused.
    results: Arc<Mutex<Vec<Result<&'static str, Status>>>>,
}

impl RecordingVirtHandler {
    /// A virt-handler that receives notifications and never answers.
    pub(super) fn stalled() -> RecordingVirtHandler {
        RecordingVirtHandler {
            is_stalled: true,
            ..RecordingVirtHandler::default()
        }
    }

    /// A virt-handler that takes this long to answer a domain event.
    pub(super) fn slow(pause: Duration) -> RecordingVirtHandler {
        RecordingVirtHandler {
            pause,
            ..RecordingVirtHandler::default()
        }
    }

    /// The results of the next calls, the last one first: an error, or why the notification is refused.
    pub(super) fn answer_next(
        &self,
        results: impl IntoIterator<Item = Result<&'static str, Status>>,
    ) {
        self.results.lock().unwrap().extend(results);
    }

    fn record(&self, notification: String) -> Result<Response<Answer>, Status> {
        if let Some(result) = self.results.lock().unwrap().pop() {
            let message = result?.to_owned();
            return Ok(Response::new(Answer {
                success: false,
                message,
            }));
        }
        self.notifications.lock().unwrap().push(notification);
        Ok(Response::new(Answer {
            success: true,
            message: String::new(),
        }))
    }

    pub(super) fn serve(&self, socket: &Path) {
        let listener = UnixListener::bind(socket).unwrap();
        let server = tonic::transport::Server::builder()
            .add_service(NotifyInfoServer::new(self.clone()))
            .add_service(NotifyServer::new(self.clone()));
        tokio::spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
    }

    pub(super) fn notifications(&self) -> Vec<String> {
        self.notifications.lock().unwrap().clone()
    }
}

#[tonic::async_trait]
impl NotifyInfo for RecordingVirtHandler {
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
impl Notify for RecordingVirtHandler {
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
