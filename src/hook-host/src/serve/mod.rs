//! Serves a chain on a gRPC socket, as one hook sidecar of a stock launcher.
//!
//! There are two such front ends: a hook sidecar (`Info` and `Callbacks` in all three versions) and a plugin's sidecar
//! (`DomainHookService` and `LauncherHookService`). Both call a [`Chain`] with the same checks, limits and logs as in
//! this project's launcher.
//!
//! KubeVirt's launcher treats an existing socket as ready: it gives up at the first `Info` that fails, and dials every
//! file that it finds. So the socket is created in a hidden directory, which launchers skip, and renamed into place
//! once all hooks are ready.
//!
//! **Repeated calls.** A stock launcher calls `OnDefineDomain` at every define, two or three times a boot,
//! each time with XML that libvirt may have normalized. So hooks that are served this way must be idempotent.
//!
//! **PreStart** is not in KubeVirt's contract. Hooks that subscribe to it are called just before each of
//! the other calls: after KubeVirt has prepared the start, but early enough to refuse it.

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

use bounded_listener::limits::{HOOK_SOCKET, MESSAGE_BYTES};
use bounded_listener::{CountingRouter, CountingServer, GrpcLimits, GrpcServer};
use proto::hooks::info::info_server::InfoServer;
use proto::hooks::plugins::v1alpha1::domain_hook_service_server::DomainHookServiceServer;
use proto::hooks::plugins::v1alpha1::launcher_hook_service_server::LauncherHookServiceServer;
use proto::hooks::v1alpha1::callbacks_server::CallbacksServer as V1alpha1Server;
use proto::hooks::v1alpha2::callbacks_server::CallbacksServer as V1alpha2Server;
use proto::hooks::v1alpha3::callbacks_server::CallbacksServer as V1alpha3Server;

use crate::{Chain, HookPoint, Limits};
use chain_service::ChainService;
pub use socket_staging::SocketStaging;

/// Maximum size of the protobuf encoding of a request in bytes, besides its two texts, which may have `Limits::output`
/// bytes each.
const PROTOBUF_OVERHEAD: usize = 64 << 10;

/// The gRPC services that a served chain offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrontEnd {
    /// A hook sidecar.
    Sidecar {
        /// The name in Info, which launchers only log.
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
    /// The namespace for whose rules of the policy the chain was collected. Requests about VMIs of other namespaces are
    /// refused.
    pub namespace: Option<String>,
    /// The limits of the chain. `output` also limits the size of messages.
    pub limits: Limits,
    /// How long to wait for the request in progress when serving ends. Requests that wait for it are refused, and those
    /// that have not arrived completely are dropped.
    pub drain: Duration,
}

/// Why serving ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The launcher called Shutdown and got its answer.
    Shutdown,
    /// The caller's `stop` future completed.
    Stopped,
}

/// Why serving failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The directory of the socket does not exist.
    #[error("{directory} is not there; is this a container that shares it with the launcher?")]
    NoDirectory {
        /// The directory.
        directory: PathBuf,
    },
    /// The path does not fit into a socket address.
    #[error("{path}: a socket's path has at most {limit} bytes, this one has {}", path.as_os_str().len())]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// Maximum length of a path in bytes.
        limit: usize,
    },
    /// Another process serves at the path, or the file there is not a socket.
    #[error("{path}: {what}; give this one another name")]
    PathInUse {
        /// The path.
        path: PathBuf,
        /// A description of the file at the path.
        what: &'static str,
    },
    /// A system call failed.
    #[error("{path}: {source}")]
    Io {
        /// The path of the system call.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// Serves a chain on the staged socket until the launcher calls Shutdown or `stop` completes.
/// In both cases the hooks of Shutdown run once, the request in progress is answered, and the socket is removed.
/// Connections, calls and memory are limited: see [`bounded_listener`].
/// Needs a tokio runtime with I/O and time.
pub async fn serve(
    chain: Chain,
    staging: SocketStaging,
    config: ServeConfig,
    stop: impl Future<Output = ()>,
) -> Result<StopReason, ServeError> {
    warn_about_hook_points(&chain, &config.front_end);
    let service = ChainService::new(chain, config.limits.output, config.namespace.clone());
    let limits = GrpcLimits {
        message_bytes: max_request(&config),
        ..HOOK_SOCKET
    };
    let (listener, socket) = staging.publish()?;
    tracing::info!(socket = %socket.path().display(), "hooks are served");
    let server = GrpcServer::start(listener, limits, |server| {
        add_services(server, &service, &config)
    });
    let stop_reason = tokio::select! {
        () = service.stopped() => StopReason::Shutdown,
        () = stop => {
            service.shutdown().await;
            StopReason::Stopped
        }
    };
    server.stop(config.drain).await;
    Ok(stop_reason)
}

/// Logs the subscribed hook points that the front end does not have or calls at another time than in this project's
/// launcher.
fn warn_about_hook_points(chain: &Chain, front_end: &FrontEnd) {
    for hook in chain.hooks() {
        for subscription in hook.hook_points {
            if let Some(note) = hook_point_note(subscription.point, front_end) {
                let (hook, hook_point) = (&hook.hook, subscription.point.name());
                tracing::warn!(hook, hook_point, "KubeVirt has no such call here: {note}");
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

fn max_request(config: &ServeConfig) -> usize {
    (2 * config.limits.output + PROTOBUF_OVERHEAD).min(MESSAGE_BYTES)
}

fn add_services(
    server: &mut CountingServer,
    chain: &ChainService,
    config: &ServeConfig,
) -> CountingRouter {
    let max_request = max_request(config);
    match &config.front_end {
        FrontEnd::Sidecar { name } => {
            let sidecar = sidecar_service::SidecarService::new(chain.clone(), name);
            server
                .add_service(InfoServer::new(sidecar.clone()))
                .add_service(
                    V1alpha1Server::new(sidecar.clone()).max_decoding_message_size(max_request),
                )
                .add_service(
                    V1alpha2Server::new(sidecar.clone()).max_decoding_message_size(max_request),
                )
                .add_service(V1alpha3Server::new(sidecar).max_decoding_message_size(max_request))
        }
        FrontEnd::Plugin => {
            let plugin = kubevirt_plugin_service::PluginService::new(chain.clone());
            let v1_9_service = DomainHookServiceServer::new(plugin.clone());
            let v1_10_service = LauncherHookServiceServer::new(plugin);
            server
                .add_service(v1_9_service.max_decoding_message_size(max_request))
                .add_service(v1_10_service.max_decoding_message_size(max_request))
        }
    }
}
