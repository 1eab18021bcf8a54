//! The connection to virt-handler's notification server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use proto::notify::info::NotifyInfoRequest;
use proto::notify::info::notify_info_client::NotifyInfoClient;
use proto::notify::v1::notify_client::NotifyClient;
use proto::notify::v1::{DomainEventRequest, K8sEventRequest, Response};
use tokio::net::UnixStream;
use tonic::Status;
use tonic::transport::{Channel, Endpoint, Uri};

/// Timeout of connecting and of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// The version of the notification service that the launcher uses.
const NOTIFY_VERSION: u32 = 1;

/// Why a notification could not be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// virt-handler does not accept connections (yet).
    #[error("connecting to virt-handler at {socket}: {source}")]
    Connect {
        socket: PathBuf,
        source: tonic::transport::Error,
    },
    /// virt-handler does not support the launcher's version of the service.
    #[error(
        "virt-handler at {socket} knows notification versions {offered:?}, the launcher only {NOTIFY_VERSION}"
    )]
    Version { socket: PathBuf, offered: Vec<u32> },
    /// The call failed.
    #[error("virt-handler did not take the notification: {0}")]
    Call(#[from] Box<Status>),
    /// virt-handler received the notification and reported a failure.
    #[error("virt-handler could not handle the notification: {0}")]
    Refused(String),
}

impl SendError {
    /// Whether another attempt may succeed: not if virt-handler has received the notification and answers that it failed.
    /// A gRPC status does not tell whether it received it; KubeVirt's launcher repeats the call after every one too.
    pub(super) fn is_transient(&self) -> bool {
        !matches!(self, SendError::Refused(_))
    }
}

/// A call of the notification service.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Call {
    Domain(DomainEventRequest),
    Kubernetes(K8sEventRequest),
}

/// Connects on demand, and keeps the connection until an error.
pub(super) struct NotificationClient {
    socket: PathBuf,
    connection: Option<NotifyClient<Channel>>,
}

impl NotificationClient {
    pub(super) fn new(socket: &Path) -> NotificationClient {
        NotificationClient {
            socket: socket.to_owned(),
            connection: None,
        }
    }

    /// Sends a notification once. After a transient error the next attempt opens a new connection.
    pub(super) async fn send(&mut self, call: &Call) -> Result<(), SendError> {
        let result = self.attempt(call).await;
        if result.as_ref().is_err_and(SendError::is_transient) {
            self.connection = None;
        }
        result
    }

    async fn attempt(&mut self, call: &Call) -> Result<(), SendError> {
        let client = match &mut self.connection {
            Some(client) => client,
            none => none.insert(connect(&self.socket).await?),
        };
        let response = match call {
            Call::Domain(request) => client.handle_domain_event(request.clone()).await,
            Call::Kubernetes(request) => client.handle_k8s_event(request.clone()).await,
        };
        check_response(response.map_err(Box::new)?.into_inner())
    }
}

/// Checks the response. A server that reports errors through gRPC leaves `success` unset and the message empty.
fn check_response(response: Response) -> Result<(), SendError> {
    if response.success || response.message.is_empty() {
        Ok(())
    } else {
        Err(SendError::Refused(response.message))
    }
}

async fn connect(socket: &Path) -> Result<NotifyClient<Channel>, SendError> {
    let path = socket.to_owned();
    let connector = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://localhost")
        .connect_timeout(CALL_TIMEOUT)
        .timeout(CALL_TIMEOUT)
        .connect_with_connector(connector)
        .await
        .map_err(|source| SendError::Connect {
            socket: socket.to_owned(),
            source,
        })?;
    negotiate(socket, channel).await
}

/// Requires that virt-handler supports the launcher's version.
async fn negotiate(socket: &Path, channel: Channel) -> Result<NotifyClient<Channel>, SendError> {
    let info = NotifyInfoClient::new(channel.clone())
        .info(NotifyInfoRequest {})
        .await
        .map_err(Box::new)?;
    let offered = info.into_inner().supported_notify_versions;
    if offered.contains(&NOTIFY_VERSION) {
        Ok(NotifyClient::new(channel))
    } else {
        Err(SendError::Version {
            socket: socket.to_owned(),
            offered,
        })
    }
}
