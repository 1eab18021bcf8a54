//! Calls to a hook's sidecar, as KubeVirt's launcher makes them.

use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use proto::hooks::info::info_client::InfoClient;
use proto::hooks::info::{InfoParams, InfoResult};
use proto::hooks::plugins::v1alpha1::domain_hook_service_client::DomainHookServiceClient;
use proto::hooks::plugins::v1alpha1::launcher_hook_service_client::LauncherHookServiceClient;
use proto::hooks::plugins::v1alpha1::{
    GuestDefinitionRequest, MutateDomainRequest, SidecarContext,
};
use tokio::net::UnixStream;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use super::XML;

pub async fn dial(socket: &Path) -> Channel {
    let socket: PathBuf = socket.to_owned();
    let connector = service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost")
        .connect_with_connector(connector)
        .await
        .unwrap()
}

pub async fn info(socket: &Path) -> Result<InfoResult, Status> {
    let mut client = InfoClient::new(dial(socket).await);
    Ok(client.info(InfoParams {}).await?.into_inner())
}

pub async fn mutate(socket: &Path, vmi: String, context: &str) -> Result<Vec<u8>, Status> {
    let mut client = DomainHookServiceClient::new(dial(socket).await);
    let request = MutateDomainRequest {
        domain_type: "libvirt".into(),
        domain: XML.into(),
        vmi: vmi.into_bytes(),
        sidecar_context: Some(SidecarContext {
            invocation_context: context.into(),
        }),
    };
    Ok(client.mutate_domain(request).await?.into_inner().domain)
}

/// The call that KubeVirt v1.10 makes.
pub async fn guest_definition(
    socket: &Path,
    vmi: String,
    context: &str,
) -> Result<Vec<u8>, Status> {
    let mut client = LauncherHookServiceClient::new(dial(socket).await);
    let request = GuestDefinitionRequest {
        domain_type: "libvirt".into(),
        domain: XML.into(),
        vmi: vmi.into_bytes(),
        sidecar_context: Some(SidecarContext {
            invocation_context: context.into(),
        }),
    };
    Ok(client.guest_definition(request).await?.into_inner().domain)
}
