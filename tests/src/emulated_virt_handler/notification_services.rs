//! virt-handler's notification services, which record notifications and forward domain events to the controller.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use proto::notify::info::notify_info_server::{NotifyInfo, NotifyInfoServer};
use proto::notify::info::{NotifyInfoRequest, NotifyInfoResponse};
use proto::notify::v1::notify_server::{Notify, NotifyServer};
use proto::notify::v1::{DomainEventRequest, K8sEventRequest, Response};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tonic::{Request, Status};

use super::{Event, EventPayload};

/// A domain event for the informer's cache.
#[derive(Debug)]
pub(super) struct DomainEvent {
    pub(super) event_type: String,
    pub(super) domain: Value,
}

/// The controller that receives domain events, if one runs.
pub(super) type DomainEventReceiver = Arc<Mutex<Option<mpsc::UnboundedSender<DomainEvent>>>>;

/// Records every notification with its time.
#[derive(Debug)]
pub(super) struct Recorder {
    begin: Instant,
    events: watch::Sender<Vec<Event>>,
    event_receiver: DomainEventReceiver,
}

impl Recorder {
    pub(super) fn new(
        begin: Instant,
        events: watch::Sender<Vec<Event>>,
        event_receiver: DomainEventReceiver,
    ) -> Recorder {
        Recorder {
            begin,
            events,
            event_receiver,
        }
    }

    fn record(&self, payload: EventPayload) -> tonic::Response<Response> {
        let at = self.begin.elapsed();
        self.events
            .send_modify(|events| events.push(Event { at, payload }));
        tonic::Response::new(Response {
            success: true,
            message: String::new(),
        })
    }

    /// Queues the event for the informer, which updates its cache later.
    fn forward(&self, event_type: &str, domain: &Value) {
        let event_receiver = self
            .event_receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(event_receiver) = &*event_receiver {
            let _ = event_receiver.send(DomainEvent {
                event_type: event_type.to_owned(),
                domain: domain.clone(),
            });
        }
    }
}

fn decode(json: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(json).map_err(|error| Status::invalid_argument(error.to_string()))
}

#[tonic::async_trait]
impl Notify for Recorder {
    async fn handle_domain_event(
        &self,
        request: Request<DomainEventRequest>,
    ) -> Result<tonic::Response<Response>, Status> {
        let DomainEventRequest {
            domain_json,
            event_type,
            ..
        } = request.into_inner();
        // A watch error has no domain.
        let domain = if domain_json.is_empty() {
            Value::Null
        } else {
            decode(&domain_json)?
        };
        self.forward(&event_type, &domain);
        Ok(self.record(EventPayload::Domain { event_type, domain }))
    }

    async fn handle_k8s_event(
        &self,
        request: Request<K8sEventRequest>,
    ) -> Result<tonic::Response<Response>, Status> {
        Ok(self.record(EventPayload::Kubernetes(decode(
            &request.into_inner().event_json,
        )?)))
    }
}

pub(super) fn service(recorder: Arc<Recorder>) -> NotifyServer<Recorder> {
    NotifyServer::from_arc(recorder)
}

/// The service that lists the supported notification versions.
#[derive(Debug)]
pub(super) struct NotifyInfoService;

#[tonic::async_trait]
impl NotifyInfo for NotifyInfoService {
    async fn info(
        &self,
        _request: Request<NotifyInfoRequest>,
    ) -> Result<tonic::Response<NotifyInfoResponse>, Status> {
        Ok(tonic::Response::new(NotifyInfoResponse {
            supported_notify_versions: vec![1],
        }))
    }
}

pub(super) fn info() -> NotifyInfoServer<NotifyInfoService> {
    NotifyInfoServer::new(NotifyInfoService)
}
