//! Serves a chain on a gRPC socket, as one hook sidecar of a stock launcher.
//!
//! Two front ends share one core: a hook sidecar (`Info` and `Callbacks` in all three versions) and
//! a plugin's sidecar (`DomainHookService`). The core is a [`Chain`] with the same validation, limits
//! and logs as in the launcher.
//!
//! A launcher treats an existing socket as ready: KubeVirt's gives up at the first
//! `Info` that fails, and dials whatever file it finds. So the socket is created in a hidden
//! directory, which launchers skip, and renamed into place once all hooks are ready.
//!
//! **Repeated calls.** A stock launcher calls `OnDefineDomain` at every define, two or three times a boot,
//! each time on XML that libvirt may have normalised: hooks served this way must be idempotent.
//!
//! **PreStart** is not in KubeVirt's contract. Hooks that subscribe to it are called just before each of
//! the other calls: after KubeVirt prepared the start, but early enough to refuse it.

mod chain_service;
mod elements_lost_by_launcher;
mod grpc_status;
mod invocation_from_vmi;
mod kubevirt_plugin_service;
mod sidecar_cloud_init_fields;
mod sidecar_service;
mod socket_staging;

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use proto::hooks::info::info_server::InfoServer;
use proto::hooks::plugins::v1alpha1::domain_hook_service_server::DomainHookServiceServer;
use proto::hooks::plugins::v1alpha1::launcher_hook_service_server::LauncherHookServiceServer;
use proto::hooks::v1alpha1::callbacks_server::CallbacksServer as V1alpha1;
use proto::hooks::v1alpha2::callbacks_server::CallbacksServer as V1alpha2;
use proto::hooks::v1alpha3::callbacks_server::CallbacksServer as V1alpha3;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::transport::server::Router;

use crate::{Chain, HookPoint, Limits};
use chain_service::ChainService;
pub use socket_staging::SocketStaging;

/// A request's two texts may each have `Limits::output` bytes; the rest is protobuf encoding.
const WRAPPING: usize = 64 << 10;

/// The gRPC services under which a chain is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrontEnd {
    /// A hook sidecar.
    Sidecar {
        /// The name in Info; launchers only log it.
        name: String,
    },
    /// The sidecar of a `Plugin` of KubeVirt v1.9 or v1.10.
    Plugin,
}

/// Configuration of [`serve`].
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// The front end.
    pub front_end: FrontEnd,
    /// The namespace whose policy the chain has; calls about VMIs of others are refused.
    pub namespace: Option<String>,
    /// The chain's own; `output` bounds the messages.
    pub limits: Limits,
    /// How long calls in flight may take to finish at the end.
    pub drain: Duration,
}

/// Why serving ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The launcher called Shutdown, and was answered.
    Shutdown,
    /// The caller's own signal.
    Stopped,
}

/// Why a socket could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The directory of the socket does not exist.
    #[error("{directory} is not there; is this a container that shares it with the launcher?")]
    NoDirectory {
        /// Which.
        directory: PathBuf,
    },
    /// The path does not fit into a socket address.
    #[error("{path}: a socket's path has at most {limit} bytes, this one has {}", path.as_os_str().len())]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// What fits.
        limit: usize,
    },
    /// Another process serves there, or the file is not a socket.
    #[error("{path}: {what}; give this one another name")]
    Taken {
        /// The path.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// A system call failed.
    #[error("{path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The server ended by itself.
    #[error("serving on {path}: {source}")]
    Server {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: tonic::transport::Error,
    },
}

/// Serves a chain on the staged socket until the launcher calls Shutdown or `stop` completes.
/// Either way shutdown hooks run once, calls in flight are answered, and the socket is removed.
/// Needs a tokio runtime with IO and time.
pub async fn serve(
    chain: Chain,
    staging: SocketStaging,
    config: ServeConfig,
    stop: impl Future<Output = ()>,
) -> Result<StopReason, ServeError> {
    warn_about_hook_points(&chain, &config.front_end);
    let service = ChainService::new(chain, config.limits.output, config.namespace.clone());
    let router = router(&service, &config);
    let (listener, socket) = staging.publish()?;
    tracing::info!(socket = %socket.path().display(), "hooks are served");
    let incoming = UnixListenerStream::new(listener);
    let served = router.serve_with_incoming_shutdown(incoming, service.stopped());
    tokio::pin!(served);
    let stop_reason = tokio::select! {
        ended = &mut served => return serve_result(ended, &socket).map(|()| StopReason::Shutdown),
        () = service.stopped() => StopReason::Shutdown,
        () = stop => {
            service.shutdown().await;
            StopReason::Stopped
        }
    };
    match tokio::time::timeout(config.drain, served).await {
        Ok(ended) => serve_result(ended, &socket)?,
        Err(_) => tracing::warn!(drain = ?config.drain, "a launcher keeps its connection open"),
    }
    Ok(stop_reason)
}

/// Logs the hook points that the front end lacks or calls at another time than the author expects.
fn warn_about_hook_points(chain: &Chain, front_end: &FrontEnd) {
    for hook in chain.hooks() {
        for subscription in hook.hook_points {
            if let Some(how) = hook_point_note(subscription.point, front_end) {
                let (hook, hook_point) = (&hook.hook, subscription.point.name());
                tracing::warn!(hook, hook_point, "KubeVirt has no such call here: {how}");
            }
        }
    }
}

fn hook_point_note(point: HookPoint, front_end: &FrontEnd) -> Option<&'static str> {
    match (point, front_end) {
        (HookPoint::OnAttachDevice, _) => {
            Some("KubeVirt's launcher attaches devices without any hook; the hook is never called")
        }
        (HookPoint::PreMigrationSource, _) => {
            Some("KubeVirt's launcher migrates without any hook; the hook is never called")
        }
        (HookPoint::PreStart, _) => Some("the hook is called before each of the others"),
        (HookPoint::PreCloudInitIso, FrontEnd::Plugin) => Some("the hook is never called for it"),
        (HookPoint::Shutdown, FrontEnd::Plugin) => {
            Some("the hook is called when this container ends")
        }
        _ => None,
    }
}

fn router(chain: &ChainService, config: &ServeConfig) -> Router {
    let request = 2 * config.limits.output + WRAPPING;
    let mut server = Server::builder();
    match &config.front_end {
        FrontEnd::Sidecar { name } => {
            let sidecar = sidecar_service::Sidecar::new(chain.clone(), name);
            server
                .add_service(InfoServer::new(sidecar.clone()))
                .add_service(V1alpha1::new(sidecar.clone()).max_decoding_message_size(request))
                .add_service(V1alpha2::new(sidecar.clone()).max_decoding_message_size(request))
                .add_service(V1alpha3::new(sidecar).max_decoding_message_size(request))
        }
        FrontEnd::Plugin => {
            let plugin = kubevirt_plugin_service::Plugin::new(chain.clone());
            let old = DomainHookServiceServer::new(plugin.clone());
            let new = LauncherHookServiceServer::new(plugin);
            server
                .add_service(old.max_decoding_message_size(request))
                .add_service(new.max_decoding_message_size(request))
        }
    }
}

fn serve_result(
    ended: Result<(), tonic::transport::Error>,
    socket: &socket_staging::PublishedSocket,
) -> Result<(), ServeError> {
    ended.map_err(|source| ServeError::Server {
        path: socket.path().to_owned(),
        source,
    })
}
