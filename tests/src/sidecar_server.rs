//! A gRPC hook sidecar that serves the three versions of the hook API, or the plugin API.

mod grpc_services;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use proto::hooks::info::info_server::InfoServer;
use proto::hooks::plugins::v1alpha1::domain_hook_service_server::DomainHookServiceServer;
use proto::hooks::{v1alpha1, v1alpha2, v1alpha3};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::Status;
use tonic::transport::Server;

use crate::emulated_virt_handler::make_world_accessible;

/// A function that rewrites a document (domain XML, or the JSON of the cloud-init data), or returns an error message.
pub type Rewrite = Arc<dyn Fn(String) -> Result<String, String> + Send + Sync>;

/// The configuration of a sidecar.
#[derive(Clone)]
pub struct Sidecar {
    name: String,
    versions: Vec<&'static str>,
    hook_points: Vec<(&'static str, i32)>,
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
    /// A sidecar that has all three versions and no hook point, and changes nothing.
    pub fn new(name: &str) -> Sidecar {
        Sidecar {
            name: name.to_owned(),
            versions: vec!["v1alpha1", "v1alpha2", "v1alpha3"],
            hook_points: Vec::new(),
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
        self.hook_points.push(("OnDefineDomain", priority));
        self.domain = Arc::new(rewrite);
        self
    }

    /// Subscribes to `PreCloudInitIso`; `rewrite` gets the JSON of the cloud-init data.
    pub fn pre_cloud_init_iso(
        mut self,
        priority: i32,
        rewrite: impl Fn(String) -> Result<String, String> + Send + Sync + 'static,
    ) -> Sidecar {
        self.hook_points.push(("PreCloudInitIso", priority));
        self.cloud_init = Arc::new(rewrite);
        self
    }

    /// Subscribes to `Shutdown`.
    pub fn shutdown(mut self, priority: i32) -> Sidecar {
        self.hook_points.push(("Shutdown", priority));
        self
    }

    /// Serves on `hooks_dir/directory/hook.sock`.
    pub fn serve(self, hooks_dir: &Path, directory: &str) -> Result<RunningSidecar> {
        let directory = hooks_dir.join(directory);
        std::fs::create_dir_all(&directory)?;
        let path = directory.join("hook.sock");
        let listener = UnixListener::bind(&path).with_context(|| format!("{}", path.display()))?;
        make_world_accessible(&path)?;
        let calls = Arc::clone(&self.calls);
        let server = tokio::spawn(async move {
            let serving = Server::builder()
                .add_service(InfoServer::new(self.clone()))
                .add_service(v1alpha1::callbacks_server::CallbacksServer::new(
                    self.clone(),
                ))
                .add_service(v1alpha2::callbacks_server::CallbacksServer::new(
                    self.clone(),
                ))
                .add_service(v1alpha3::callbacks_server::CallbacksServer::new(self))
                .serve_with_incoming(UnixListenerStream::new(listener));
            let _ = serving.await;
        });
        Ok(RunningSidecar { calls, server })
    }

    /// Serves the plugin API on `directory/hook.sock`.
    pub fn serve_plugin(self, directory: &Path) -> Result<RunningSidecar> {
        std::fs::create_dir_all(directory)?;
        let path = directory.join("hook.sock");
        let listener = UnixListener::bind(&path).with_context(|| format!("{}", path.display()))?;
        make_world_accessible(&path)?;
        let calls = Arc::clone(&self.calls);
        let server = tokio::spawn(async move {
            let serving = Server::builder()
                .add_service(DomainHookServiceServer::new(self))
                .serve_with_incoming(UnixListenerStream::new(listener));
            let _ = serving.await;
        });
        Ok(RunningSidecar { calls, server })
    }

    fn log_call(&self, version: &str, method: &str) {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(format!("{version} {method}"));
    }

    fn rewrite_domain(&self, version: &str, xml: Vec<u8>) -> Result<Vec<u8>, Status> {
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
    /// All calls so far, each as `VERSION METHOD`.
    pub fn calls(&self) -> Vec<String> {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl RunningSidecar {
    /// Serves until this process ends.
    pub fn keep_running(self) {
        std::mem::forget(self);
    }
}

impl Drop for RunningSidecar {
    fn drop(&mut self) {
        self.server.abort();
    }
}
