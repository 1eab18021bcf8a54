//! The connection to virt-handler's notification server.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use proto::notify::info::NotifyInfoRequest;
use proto::notify::info::notify_info_client::NotifyInfoClient;
use proto::notify::v1::notify_client::NotifyClient;
use proto::notify::v1::{DomainEventRequest, K8sEventRequest, Response};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status};

/// How long a connection or a call may take.
const CALL_DEADLINE: Duration = Duration::from_secs(5);
/// The one version of the notification service that both sides know.
const VERSION: u32 = 1;

/// A notification did not get through.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// virt-handler does not listen (yet).
    #[error("connecting to virt-handler at {socket}: {source}")]
    Connect {
        socket: PathBuf,
        source: tonic::transport::Error,
    },
    /// The server speaks another version.
    #[error(
        "virt-handler at {socket} knows notification versions {offered:?}, the launcher only {VERSION}"
    )]
    Version { socket: PathBuf, offered: Vec<u32> },
    /// The call failed.
    #[error("virt-handler did not take the notification: {0}")]
    Call(#[from] Box<Status>),
    /// The server received it and reported a failure.
    #[error("virt-handler could not handle the notification: {0}")]
    Refused(String),
}

impl SendError {
    /// Whether another attempt may succeed.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            SendError::Connect { .. } | SendError::Version { .. } => true,
            SendError::Call(status) => match status.code() {
                Code::Unavailable | Code::DeadlineExceeded | Code::Aborted | Code::Cancelled => {
                    true
                }
                // Of a connection that broke during the call; what a server answers has no source.
                Code::Unknown => status.source().is_some(),
                _ => false,
            },
            SendError::Refused(_) => false,
        }
    }
}

/// A call to make.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Call {
    Domain(DomainEventRequest),
    Kubernetes(K8sEventRequest),
}

/// Connects on demand and keeps the connection while it works.
pub(super) struct Client {
    socket: PathBuf,
    connected: Option<NotifyClient<Channel>>,
}

impl Client {
    pub(super) fn new(socket: &Path) -> Client {
        Client {
            socket: socket.to_owned(),
            connected: None,
        }
    }

    /// One attempt. After a transient error the next attempt opens a new connection.
    pub(super) async fn send(&mut self, call: &Call) -> Result<(), SendError> {
        let result = self.attempt(call).await;
        if result.as_ref().is_err_and(SendError::is_transient) {
            self.connected = None;
        }
        result
    }

    async fn attempt(&mut self, call: &Call) -> Result<(), SendError> {
        let client = match &mut self.connected {
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

/// Servers that report errors through gRPC leave `success` unset and the message empty.
fn check_response(response: Response) -> Result<(), SendError> {
    if response.success || response.message.is_empty() {
        Ok(())
    } else {
        Err(SendError::Refused(response.message))
    }
}

async fn connect(socket: &Path) -> Result<NotifyClient<Channel>, SendError> {
    let path = socket.to_owned();
    let dial = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://localhost")
        .connect_timeout(CALL_DEADLINE)
        .timeout(CALL_DEADLINE)
        .connect_with_connector(dial)
        .await
        .map_err(|source| SendError::Connect {
            socket: socket.to_owned(),
            source,
        })?;
    negotiate(socket, channel).await
}

async fn negotiate(socket: &Path, channel: Channel) -> Result<NotifyClient<Channel>, SendError> {
    let info = NotifyInfoClient::new(channel.clone())
        .info(NotifyInfoRequest {})
        .await
        .map_err(Box::new)?;
    let offered = info.into_inner().supported_notify_versions;
    if offered.contains(&VERSION) {
        Ok(NotifyClient::new(channel))
    } else {
        Err(SendError::Version {
            socket: socket.to_owned(),
            offered,
        })
    }
}
