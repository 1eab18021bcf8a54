//! A virt-handler that records the launcher's notifications, one line each.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto::notify::info::notify_info_server::{NotifyInfo, NotifyInfoServer};
use proto::notify::info::{NotifyInfoRequest, NotifyInfoResponse};
use proto::notify::v1::notify_server::{Notify, NotifyServer};
use proto::notify::v1::{DomainEventRequest, K8sEventRequest, Response as HandlerResponse};
use serde_json::Value;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

/// A virt-handler that records the notifications that it receives, one line each:
/// `ADDED uid= Shutoff/Unknown`, `MODIFIED uid=1234 Running/Unknown grace=5`.
#[derive(Clone, Default)]
pub(crate) struct RecordingVirtHandler {
    notifications: Arc<Mutex<Vec<String>>>,
    behavior: Arc<Mutex<HandlerBehavior>>,
}

/// How the virt-handler responds to notifications.
#[derive(Clone, Copy, Default)]
struct HandlerBehavior {
    refuses: bool,
    delay: Duration,
}

impl RecordingVirtHandler {
    /// Serves the notification socket.
    pub(crate) fn serve(&self, socket: PathBuf) {
        let listener = UnixListener::bind(socket).unwrap();
        let server = tonic::transport::Server::builder()
            .add_service(NotifyInfoServer::new(self.clone()))
            .add_service(NotifyServer::new(self.clone()));
        tokio::spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
    }

    pub(crate) fn notifications(&self) -> Vec<String> {
        self.notifications.lock().unwrap().clone()
    }

    /// Delays the response to each notification.
    pub(crate) fn delay(&self, delay: Duration) {
        self.behavior.lock().unwrap().delay = delay;
    }

    /// Refuses notifications, or accepts them again.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.behavior.lock().unwrap().refuses = refuses;
    }

    async fn record(&self, line: String) -> Result<Response<HandlerResponse>, Status> {
        let behavior = *self.behavior.lock().unwrap();
        tokio::time::sleep(behavior.delay).await;
        if behavior.refuses {
            return Err(Status::unavailable("no virt-handler"));
        }
        self.notifications.lock().unwrap().push(line);
        Ok(Response::new(HandlerResponse {
            success: true,
            message: String::new(),
        }))
    }
}

/// The line for a domain event.
fn describe(event_type: &str, domain: &Value) -> String {
    let text = |pointer: &str| {
        domain
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or("")
            .to_owned()
    };
    let mut line = format!(
        "{event_type} uid={} {}/{}",
        text("/ObjectMeta/uid"),
        text("/Status/Status"),
        text("/Status/Reason")
    );
    let grace = domain.pointer("/Spec/Metadata/KubeVirt/GracePeriod");
    if let Some(seconds) = grace.and_then(|grace| grace["DeletionGracePeriodSeconds"].as_i64()) {
        line.push_str(&format!(" grace={seconds}"));
    }
    if grace.is_some_and(|grace| grace["DeletionTimestamp"].is_string()) {
        line.push_str(" deleting");
    }
    if grace.is_some_and(|grace| grace["MarkedForGracefulShutdown"] == true) {
        line.push_str(" marked");
    }
    let credentials = domain.pointer("/Spec/Metadata/KubeVirt/AccessCredential");
    if let Some(credentials) = credentials.filter(|credentials| !credentials.is_null()) {
        let problem = credentials["Message"]
            .as_str()
            .filter(|text| !text.is_empty());
        line.push_str(&format!(" credentials={}", problem.unwrap_or("set")));
    }
    let dump = domain.pointer("/Spec/Metadata/KubeVirt/MemoryDump");
    if let Some(dump) = dump.filter(|dump| !dump.is_null()) {
        let progress = match (dump["Completed"] == true, dump["Failed"] == true) {
            (false, _) => "begun",
            (true, false) => "completed",
            (true, true) => "failed",
        };
        line.push_str(&format!(" dump={progress}"));
    }
    let migration = domain.pointer("/Spec/Metadata/KubeVirt/Migration");
    if let Some(migration) = migration.filter(|migration| !migration.is_null()) {
        line.push_str(&describe_migration(migration));
    }
    for (name, pointer) in [
        ("os", "/Status/OSInfo/Name"),
        ("ip", "/Status/Interfaces/0/Ip"),
        ("freeze", "/Status/FSFreezeStatus/Status"),
    ] {
        if !text(pointer).is_empty() {
            line.push_str(&format!(" {name}={}", text(pointer)));
        }
    }
    if domain.pointer("/ObjectMeta/deletionTimestamp").is_some() {
        line.push_str(" gone");
    }
    line
}

/// The migration in a notification: ` migration=UID PreCopy`, and then ` Aborting`, ` ended` or ` failed: REASON`.
fn describe_migration(record: &Value) -> String {
    let text = |field: &str| record[field].as_str().unwrap_or_default().to_owned();
    let mut line = format!(" migration={} {}", text("UID"), text("Mode"));
    if !text("AbortStatus").is_empty() {
        line.push_str(&format!(" {}", text("AbortStatus")));
    }
    if record["EndTimestamp"].is_string() {
        line.push_str(" ended");
    }
    if record["Failed"] == true {
        line.push_str(&format!(" failed: {}", text("FailureReason")));
    }
    line
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
    ) -> Result<Response<HandlerResponse>, Status> {
        let request = request.into_inner();
        let domain = serde_json::from_slice(&request.domain_json).unwrap();
        self.record(describe(&request.event_type, &domain)).await
    }

    async fn handle_k8s_event(
        &self,
        request: Request<K8sEventRequest>,
    ) -> Result<Response<HandlerResponse>, Status> {
        let event: Value = serde_json::from_slice(&request.into_inner().event_json).unwrap();
        self.record(format!(
            "EVENT {}: {}",
            event["reason"].as_str().unwrap(),
            event["message"].as_str().unwrap()
        ))
        .await
    }
}
