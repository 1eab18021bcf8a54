//! One call of a plugin's sidecar, on a connection of its own.

use std::time::Duration;

use proto::hooks::plugins::v1alpha1::domain_hook_service_client::DomainHookServiceClient;
use proto::hooks::plugins::v1alpha1::launcher_hook_service_client::LauncherHookServiceClient;
use proto::hooks::plugins::v1alpha1::{
    GuestDefinitionRequest, MutateDomainRequest, SidecarContext,
};
use tonic::Status;
use tonic::transport::Channel;

use super::domain_or_launcher_hooks::HookList;
use super::plugin_socket::{PluginSocket, SocketError};
use crate::Reason;
use crate::sidecar::{channel, status_text};

/// The only domain type in KubeVirt.
const DOMAIN_TYPE: &str = "libvirt";

/// A plugin's sidecar behind a socket.
#[derive(Debug, Clone)]
pub(crate) struct PluginSidecar {
    pub(super) plugin: String,
    /// Decides which gRPC service the sidecar serves.
    pub(super) list: HookList,
    pub(super) socket_path: PluginSocket,
    /// How long to wait for the socket to appear.
    pub(super) socket_timeout: Duration,
    /// The deadline of the call, which starts when the socket is connected.
    pub(super) timeout: Duration,
}

/// Why a call of a plugin's sidecar returned no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PluginError {
    /// The socket cannot be used.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The sidecar answered with an error, or the connection broke.
    #[error("{rpc} RPC to {plugin} failed with {status}")]
    Status {
        rpc: &'static str,
        plugin: String,
        status: String,
    },
    /// The call exceeded its deadline.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
}

impl PluginSidecar {
    /// The socket's directory and file name.
    pub(super) fn socket(&self) -> (String, String) {
        let directory = self.socket_path.directory().display().to_string();
        (directory, self.socket_path.file().to_owned())
    }

    /// Calls `MutateDomain` or `GuestDefinition` on a new connection. Returns the domain of the sidecar's answer, which
    /// may have at most `output` bytes and is not validated yet.
    pub(crate) async fn change_domain(
        &self,
        output: usize,
        reason: Reason,
        vmi: &str,
        domain_xml: &str,
    ) -> Result<Vec<u8>, PluginError> {
        let stream = self.socket_path.dial(self.socket_timeout).await?;
        let call = async {
            let channel = channel(stream)
                .await
                .map_err(|error| self.status_error(error.to_string()))?;
            let answer = match self.list {
                HookList::DomainHooks => {
                    mutate_domain(channel, output, reason, vmi, domain_xml).await
                }
                HookList::LauncherHooks => {
                    guest_definition(channel, output, reason, vmi, domain_xml).await
                }
            };
            answer.map_err(|status| self.status_error(status_text(&status)))
        };
        let deadline_error = || PluginError::Deadline(self.timeout);
        // The timer has a resolution of 1 ms, so a fast answer could arrive before a timeout of zero.
        if self.timeout.is_zero() {
            return Err(deadline_error());
        }
        tokio::time::timeout(self.timeout, call)
            .await
            .map_err(|_| deadline_error())?
    }

    fn status_error(&self, status: String) -> PluginError {
        PluginError::Status {
            rpc: match self.list {
                HookList::DomainHooks => "MutateDomain",
                HookList::LauncherHooks => "GuestDefinition",
            },
            plugin: self.plugin.clone(),
            status,
        }
    }
}

/// The call of KubeVirt v1.9.
async fn mutate_domain(
    channel: Channel,
    output: usize,
    reason: Reason,
    vmi: &str,
    domain_xml: &str,
) -> Result<Vec<u8>, Status> {
    let request = MutateDomainRequest {
        domain_type: DOMAIN_TYPE.to_owned(),
        domain: domain_xml.as_bytes().to_vec(),
        vmi: vmi.as_bytes().to_vec(),
        sidecar_context: Some(context(reason)),
    };
    let client = DomainHookServiceClient::new(channel);
    let mut client = client.max_decoding_message_size(output);
    Ok(client.mutate_domain(request).await?.into_inner().domain)
}

/// The call of KubeVirt v1.10, with the same members.
async fn guest_definition(
    channel: Channel,
    output: usize,
    reason: Reason,
    vmi: &str,
    domain_xml: &str,
) -> Result<Vec<u8>, Status> {
    let request = GuestDefinitionRequest {
        domain_type: DOMAIN_TYPE.to_owned(),
        domain: domain_xml.as_bytes().to_vec(),
        vmi: vmi.as_bytes().to_vec(),
        sidecar_context: Some(context(reason)),
    };
    let client = LauncherHookServiceClient::new(channel);
    let mut client = client.max_decoding_message_size(output);
    Ok(client.guest_definition(request).await?.into_inner().domain)
}

/// KubeVirt's `InvocationContext`. Plugins are called only at a boot and for a migration that arrives.
fn context(reason: Reason) -> SidecarContext {
    let context = match reason {
        Reason::Boot | Reason::Hotplug | Reason::MigrationSource | Reason::Shutdown => "Boot",
        Reason::MigrationTarget => "MigrationTarget",
    };
    SidecarContext {
        invocation_context: context.to_owned(),
    }
}
