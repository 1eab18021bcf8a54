//! Modules behind a gRPC socket: a whole chain that looks like one sidecar to a stock launcher.
//!
//! Two front ends over one core: a hook sidecar (`Info` and `Callbacks` in all three versions) and
//! a plugin's sidecar (`DomainHookService`). The core is a [`Chain`]; what is checked, bounded and
//! logged there is so here too.
//!
//! A launcher takes a socket that is there for one that is ready: KubeVirt's gives up at the first
//! `Info` that fails, and dials whatever file it finds. So the socket is made in a hidden
//! directory, which launchers skip, and renamed into place once everything behind it is ready.
//!
//! **Often.** A stock launcher calls `OnDefineDomain` at every define, two or three times a boot,
//! and each time on XML that libvirt may have normalised: hooks served this way must be idempotent.
//!
//! **PreStart** is not in KubeVirt's contract. Hooks that want it are called just before each of
//! the other calls: too late to spare the preparation, early enough to refuse the start.

mod calls;
mod cloud_init;
mod plugin;
mod sidecar;
mod stage;
mod status;
mod subject;

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use proto::hooks::info::info_server::InfoServer;
use proto::hooks::plugins::v1alpha1::domain_hook_service_server::DomainHookServiceServer;
use proto::hooks::v1alpha1::callbacks_server::CallbacksServer as V1alpha1;
use proto::hooks::v1alpha2::callbacks_server::CallbacksServer as V1alpha2;
use proto::hooks::v1alpha3::callbacks_server::CallbacksServer as V1alpha3;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::transport::server::Router;

use crate::{Chain, HookPoint, Limits};
use calls::Calls;
pub use stage::Stage;

/// A call's two texts may each have `Limits::output`; the rest is what wraps them.
const WRAPPING: usize = 64 << 10;

/// As whom the chain is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Front {
    /// A hook sidecar, which introduces itself under this name.
    Sidecar {
        /// For logs; launchers do not tell sidecars apart by it.
        name: String,
    },
    /// The sidecar of a `Plugin` of KubeVirt v1.9.
    Plugin,
}

/// How the chain is served.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// As whom.
    pub front: Front,
    /// The chain's own; `output` bounds the messages.
    pub limits: Limits,
    /// How long calls in flight have to finish at the end.
    pub drain: Duration,
}

/// Why serving ended as it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The launcher called Shutdown, and was answered.
    Shutdown,
    /// The caller's own signal.
    Stopped,
}

/// A socket that could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// There is no directory for the socket.
    #[error("{directory} is not there; is this a container that shares it with the launcher?")]
    NoDirectory {
        /// Which.
        directory: PathBuf,
    },
    /// Its path does not fit into a socket address.
    #[error("{path}: a socket's path has at most {limit} bytes, this one has {}", path.as_os_str().len())]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// What fits.
        limit: usize,
    },
    /// Somebody serves there, or it is no socket.
    #[error("{path}: {what}; give this one another name")]
    Taken {
        /// The path.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// The system says no.
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

/// Serves a chain that is ready on the stage's socket until the launcher calls Shutdown or `stop`
/// is done. Either way shutdown hooks run, once, calls in flight are answered, and the socket is
/// gone afterwards. Needs a tokio runtime with IO and time.
pub async fn serve(
    chain: Chain,
    stage: Stage,
    config: ServeConfig,
    stop: impl Future<Output = ()>,
) -> Result<Ending, ServeError> {
    warn_of_what_differs(&chain, &config.front);
    let calls = Calls::new(chain, config.limits.output);
    let router = router(&calls, &config);
    let (listener, socket) = stage.publish()?;
    tracing::info!(socket = %socket.path().display(), "hooks are served");
    let incoming = UnixListenerStream::new(listener);
    let served = router.serve_with_incoming_shutdown(incoming, calls.ended());
    tokio::pin!(served);
    let ending = tokio::select! {
        ended = &mut served => return settled(ended, &socket).map(|()| Ending::Shutdown),
        () = calls.ended() => Ending::Shutdown,
        () = stop => {
            calls.shutdown().await;
            Ending::Stopped
        }
    };
    match tokio::time::timeout(config.drain, served).await {
        Ok(ended) => settled(ended, &socket)?,
        Err(_) => tracing::warn!(drain = ?config.drain, "a launcher keeps its connection open"),
    }
    Ok(ending)
}

/// Hook points that the front has not, or not when a module's author expects them.
fn warn_of_what_differs(chain: &Chain, front: &Front) {
    for hook in chain.hooks() {
        for subscription in hook.hook_points {
            if let Some(how) = difference(subscription.point, front) {
                let (hook, hook_point) = (&hook.hook, subscription.point.name());
                tracing::warn!(hook, hook_point, "KubeVirt has no such call here: {how}");
            }
        }
    }
}

fn difference(point: HookPoint, front: &Front) -> Option<&'static str> {
    match (point, front) {
        (HookPoint::PreStart, _) => Some("the hook is called before each of the others"),
        (HookPoint::PreCloudInitIso, Front::Plugin) => Some("the hook is never called for it"),
        (HookPoint::Shutdown, Front::Plugin) => Some("the hook is called when this container ends"),
        _ => None,
    }
}

fn router(calls: &Calls, config: &ServeConfig) -> Router {
    let request = 2 * config.limits.output + WRAPPING;
    let mut server = Server::builder();
    match &config.front {
        Front::Sidecar { name } => {
            let sidecar = sidecar::Sidecar::new(calls.clone(), name);
            server
                .add_service(InfoServer::new(sidecar.clone()))
                .add_service(V1alpha1::new(sidecar.clone()).max_decoding_message_size(request))
                .add_service(V1alpha2::new(sidecar.clone()).max_decoding_message_size(request))
                .add_service(V1alpha3::new(sidecar).max_decoding_message_size(request))
        }
        Front::Plugin => {
            let plugin = DomainHookServiceServer::new(plugin::Plugin::new(calls.clone()));
            server.add_service(plugin.max_decoding_message_size(request))
        }
    }
}

fn settled(
    ended: Result<(), tonic::transport::Error>,
    socket: &stage::Socket,
) -> Result<(), ServeError> {
    ended.map_err(|source| ServeError::Server {
        path: socket.path().to_owned(),
        source,
    })
}
