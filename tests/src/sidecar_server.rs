//! A real gRPC hook sidecar, of any of the three versions.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use proto::hooks::info::info_server::{Info, InfoServer};
use proto::hooks::info::{HookPoint, InfoParams, InfoResult};
use proto::hooks::plugins::v1alpha1::domain_hook_service_server::{
    DomainHookService, DomainHookServiceServer,
};
use proto::hooks::plugins::v1alpha1::{MutateDomainRequest, MutateDomainResponse};
use proto::hooks::{v1alpha1, v1alpha2, v1alpha3};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::virt_handler::open_to_all;

/// Rewrites a document (domain XML, or the JSON of the cloud-init data), or refuses it.
pub type Rewrite = Arc<dyn Fn(String) -> Result<String, String> + Send + Sync>;

/// The configuration of a sidecar.
#[derive(Clone)]
pub struct Sidecar {
    name: String,
    versions: Vec<&'static str>,
    points: Vec<(&'static str, i32)>,
    domain: Rewrite,
    cloud_init: Rewrite,
    calls: Arc<Mutex<Vec<String>>>,
}

/// A sidecar that serves until it is dropped.
#[derive(Debug)]
pub struct RunningSidecar {
    calls: Arc<Mutex<Vec<String>>>,
    server: JoinHandle<()>,
}

impl Sidecar {
    /// A sidecar of this name that knows all three versions, has no hook point and changes nothing.
    pub fn new(name: &str) -> Sidecar {
        Sidecar {
            name: name.to_owned(),
            versions: vec!["v1alpha1", "v1alpha2", "v1alpha3"],
            points: Vec::new(),
            domain: Arc::new(Ok),
            cloud_init: Arc::new(Ok),
            calls: Arc::default(),
        }
    }

    /// Restricts the sidecar to these versions.
    pub fn versions(mut self, versions: &[&'static str]) -> Sidecar {
        self.versions = versions.to_vec();
        self
    }

    /// Subscribes to `OnDefineDomain`.
    pub fn on_define_domain(
        mut self,
        priority: i32,
        rewrite: impl Fn(String) -> Result<String, String> + Send + Sync + 'static,
    ) -> Sidecar {
        self.points.push(("OnDefineDomain", priority));
        self.domain = Arc::new(rewrite);
        self
    }

    /// Subscribes to `PreCloudInitIso`; `rewrite` gets the JSON of the cloud-init data.
    pub fn pre_cloud_init_iso(
        mut self,
        priority: i32,
        rewrite: impl Fn(String) -> Result<String, String> + Send + Sync + 'static,
    ) -> Sidecar {
        self.points.push(("PreCloudInitIso", priority));
        self.cloud_init = Arc::new(rewrite);
        self
    }

    /// Subscribes to `Shutdown`.
    pub fn shutdown(mut self, priority: i32) -> Sidecar {
        self.points.push(("Shutdown", priority));
        self
    }

    /// Serves on `hooks_dir/directory/hook.sock`.
    pub fn serve(self, hooks_dir: &Path, directory: &str) -> Result<RunningSidecar> {
        let directory = hooks_dir.join(directory);
        std::fs::create_dir_all(&directory)?;
        let path = directory.join("hook.sock");
        let listener = UnixListener::bind(&path).with_context(|| format!("{}", path.display()))?;
        open_to_all(&path)?;
        let calls = Arc::clone(&self.calls);
        let server = tokio::spawn(async move {
            let served = Server::builder()
                .add_service(InfoServer::new(self.clone()))
                .add_service(v1alpha1::callbacks_server::CallbacksServer::new(
                    self.clone(),
                ))
                .add_service(v1alpha2::callbacks_server::CallbacksServer::new(
                    self.clone(),
                ))
                .add_service(v1alpha3::callbacks_server::CallbacksServer::new(self))
                .serve_with_incoming(UnixListenerStream::new(listener));
            let _ = served.await;
        });
        Ok(RunningSidecar { calls, server })
    }

    /// Serves as a plugin's sidecar on `directory/hook.sock`.
    pub fn serve_plugin(self, directory: &Path) -> Result<RunningSidecar> {
        std::fs::create_dir_all(directory)?;
        let path = directory.join("hook.sock");
        let listener = UnixListener::bind(&path).with_context(|| format!("{}", path.display()))?;
        open_to_all(&path)?;
        let calls = Arc::clone(&self.calls);
        let server = tokio::spawn(async move {
            let served = Server::builder()
                .add_service(DomainHookServiceServer::new(self))
                .serve_with_incoming(UnixListenerStream::new(listener));
            let _ = served.await;
        });
        Ok(RunningSidecar { calls, server })
    }

    fn log_call(&self, version: &str, method: &str) {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(format!("{version} {method}"));
    }

    fn define(&self, version: &str, xml: Vec<u8>) -> Result<Vec<u8>, Status> {
        self.log_call(version, "OnDefineDomain");
        rewrite(&self.domain, xml)
    }

    fn cloud_init(&self, version: &str, json: Vec<u8>) -> Result<Vec<u8>, Status> {
        self.log_call(version, "PreCloudInitIso");
        rewrite(&self.cloud_init, json)
    }
}

fn rewrite(with: &Rewrite, document: Vec<u8>) -> Result<Vec<u8>, Status> {
    let document =
        String::from_utf8(document).map_err(|error| Status::invalid_argument(error.to_string()))?;
    with(document)
        .map(String::into_bytes)
        .map_err(Status::unknown)
}

impl RunningSidecar {
    /// `VERSION METHOD` of all calls so far.
    pub fn calls(&self) -> Vec<String> {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl RunningSidecar {
    /// Serves until this process ends.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for RunningSidecar {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[tonic::async_trait]
impl Info for Sidecar {
    async fn info(&self, _request: Request<InfoParams>) -> Result<Response<InfoResult>, Status> {
        let point = |(name, priority): &(&str, i32)| HookPoint {
            name: (*name).to_owned(),
            priority: *priority,
        };
        Ok(Response::new(InfoResult {
            name: self.name.clone(),
            versions: self.versions.iter().map(ToString::to_string).collect(),
            hook_points: self.points.iter().map(point).collect(),
        }))
    }
}

#[tonic::async_trait]
impl v1alpha1::callbacks_server::Callbacks for Sidecar {
    async fn on_define_domain(
        &self,
        request: Request<v1alpha1::OnDefineDomainParams>,
    ) -> Result<Response<v1alpha1::OnDefineDomainResult>, Status> {
        let domain_xml = self.define("v1alpha1", request.into_inner().domain_xml)?;
        Ok(Response::new(v1alpha1::OnDefineDomainResult { domain_xml }))
    }
}

/// The two later versions have the same first two calls.
macro_rules! callbacks {
    ($version:ident { $($shutdown:tt)* }) => {
        #[tonic::async_trait]
        impl $version::callbacks_server::Callbacks for Sidecar {
            async fn on_define_domain(
                &self,
                request: Request<$version::OnDefineDomainParams>,
            ) -> Result<Response<$version::OnDefineDomainResult>, Status> {
                let domain_xml = self.define(stringify!($version), request.into_inner().domain_xml)?;
                Ok(Response::new($version::OnDefineDomainResult { domain_xml }))
            }

            async fn pre_cloud_init_iso(
                &self,
                request: Request<$version::PreCloudInitIsoParams>,
            ) -> Result<Response<$version::PreCloudInitIsoResult>, Status> {
                let params = request.into_inner();
                let cloud_init_data = self.cloud_init(stringify!($version), params.cloud_init_data)?;
                let cloud_init_no_cloud_source = params.cloud_init_no_cloud_source;
                Ok(Response::new($version::PreCloudInitIsoResult { cloud_init_no_cloud_source, cloud_init_data }))
            }

            $($shutdown)*
        }
    };
}

callbacks!(v1alpha2 {});
callbacks!(v1alpha3 {
    async fn shutdown(
        &self,
        _request: Request<v1alpha3::ShutdownParams>,
    ) -> Result<Response<v1alpha3::ShutdownResult>, Status> {
        self.log_call("v1alpha3", "Shutdown");
        Ok(Response::new(v1alpha3::ShutdownResult {}))
    }
});

#[tonic::async_trait]
impl DomainHookService for Sidecar {
    async fn mutate_domain(
        &self,
        request: Request<MutateDomainRequest>,
    ) -> Result<Response<MutateDomainResponse>, Status> {
        let MutateDomainRequest {
            domain,
            sidecar_context,
            ..
        } = request.into_inner();
        let context = sidecar_context.unwrap_or_default().invocation_context;
        self.log_call(&context, "MutateDomain");
        let domain = rewrite(&self.domain, domain)?;
        Ok(Response::new(MutateDomainResponse { domain }))
    }
}
