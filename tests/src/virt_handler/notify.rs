//! The notification services, which record what they are told.

use std::sync::Arc;
use std::time::Instant;

use proto::notify::info::notify_info_server::{NotifyInfo, NotifyInfoServer};
use proto::notify::info::{NotifyInfoRequest, NotifyInfoResponse};
use proto::notify::v1::notify_server::{Notify, NotifyServer};
use proto::notify::v1::{DomainEventRequest, K8sEventRequest, Response};
use tokio::sync::watch;
use tonic::{Request, Status};

use super::{Event, Said};

/// Records every notification with its time.
#[derive(Debug)]
pub(super) struct Recorder {
    begin: Instant,
    events: watch::Sender<Vec<Event>>,
}

impl Recorder {
    pub(super) fn new(begin: Instant, events: watch::Sender<Vec<Event>>) -> Recorder {
        Recorder { begin, events }
    }

    fn record(&self, said: Said) -> tonic::Response<Response> {
        let at = self.begin.elapsed();
        self.events
            .send_modify(|events| events.push(Event { at, said }));
        tonic::Response::new(Response {
            success: true,
            message: String::new(),
        })
    }
}

fn decode(json: &[u8]) -> Result<serde_json::Value, Status> {
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
        // A watch error comes without a domain.
        let domain = if domain_json.is_empty() {
            serde_json::Value::Null
        } else {
            decode(&domain_json)?
        };
        Ok(self.record(Said::Domain { event_type, domain }))
    }

    async fn handle_k8s_event(
        &self,
        request: Request<K8sEventRequest>,
    ) -> Result<tonic::Response<Response>, Status> {
        Ok(self.record(Said::Kubernetes(decode(&request.into_inner().event_json)?)))
    }
}

pub(super) fn service(recorder: Arc<Recorder>) -> NotifyServer<Recorder> {
    NotifyServer::from_arc(recorder)
}

/// Says which notification versions are served.
#[derive(Debug)]
pub(super) struct Versions;

#[tonic::async_trait]
impl NotifyInfo for Versions {
    async fn info(
        &self,
        _request: Request<NotifyInfoRequest>,
    ) -> Result<tonic::Response<NotifyInfoResponse>, Status> {
        Ok(tonic::Response::new(NotifyInfoResponse {
            supported_notify_versions: vec![1],
        }))
    }
}

pub(super) fn info() -> NotifyInfoServer<Versions> {
    NotifyInfoServer::new(Versions)
}
