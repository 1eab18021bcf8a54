//! A real gRPC sidecar behind a unix socket, with its behaviour for the test to say.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto::hooks::info::info_server::{Info, InfoServer};
use proto::hooks::info::{HookPoint, InfoParams, InfoResult};
use proto::hooks::{v1alpha1, v1alpha2, v1alpha3};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

/// What a sidecar is and does.
#[derive(Clone)]
pub struct Behaviour {
    pub versions: Vec<&'static str>,
    pub hook_points: Vec<(&'static str, i32)>,
    /// From the domain XML to another one.
    pub define: fn(String) -> Result<String, Status>,
    /// From `(CloudInitData, CloudInitNoCloudSource)` to the same.
    pub cloud_init: fn(String, String) -> (String, String),
    pub info_fails: bool,
    pub delay: Duration,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            versions: vec!["v1alpha1", "v1alpha2", "v1alpha3"],
            hook_points: vec![("OnDefineDomain", 0)],
            define: Ok,
            cloud_init: |data, source| (data, source),
            info_fails: false,
            delay: Duration::ZERO,
        }
    }
}

/// A sidecar that serves until it is dropped.
pub struct Sidecar {
    task: tokio::task::JoinHandle<()>,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Sidecar {
    pub fn serve(socket: &Path, behaviour: Behaviour) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let server = Server {
            behaviour,
            calls: calls.clone(),
        };
        let router = tonic::transport::Server::builder()
            .add_service(InfoServer::new(server.clone()))
            .add_service(v1alpha1::callbacks_server::CallbacksServer::new(
                server.clone(),
            ))
            .add_service(v1alpha2::callbacks_server::CallbacksServer::new(
                server.clone(),
            ))
            .add_service(v1alpha3::callbacks_server::CallbacksServer::new(server));
        let task = tokio::spawn(async move {
            router
                .serve_with_incoming(UnixListenerStream::new(listener))
                .await
                .unwrap();
        });
        Self { task, calls }
    }

    /// Version and name of each call so far.
    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Server {
    behaviour: Behaviour,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn called(&self, what: &str) {
        self.calls.lock().unwrap().push(what.to_owned());
        tokio::time::sleep(self.behaviour.delay).await;
    }

    async fn define(&self, version: &str, xml: Vec<u8>) -> Result<Vec<u8>, Status> {
        self.called(&format!("{version} OnDefineDomain")).await;
        (self.behaviour.define)(String::from_utf8(xml).unwrap()).map(String::into_bytes)
    }

    async fn cloud_init(
        &self,
        version: &str,
        data: Vec<u8>,
        source: Vec<u8>,
    ) -> (Vec<u8>, Vec<u8>) {
        self.called(&format!("{version} PreCloudInitIso")).await;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (data, source) = (self.behaviour.cloud_init)(text(data), text(source));
        (data.into_bytes(), source.into_bytes())
    }
}

#[tonic::async_trait]
impl Info for Server {
    async fn info(&self, _: Request<InfoParams>) -> Result<Response<InfoResult>, Status> {
        if self.behaviour.info_fails {
            return Err(Status::internal("not feeling well"));
        }
        let points = self.behaviour.hook_points.iter();
        Ok(Response::new(InfoResult {
            name: "shim".into(),
            versions: self
                .behaviour
                .versions
                .iter()
                .map(ToString::to_string)
                .collect(),
            hook_points: points
                .map(|(name, priority)| HookPoint {
                    name: name.to_string(),
                    priority: *priority,
                })
                .collect(),
        }))
    }
}

// async_trait must see the functions themselves, so each macro makes a whole impl.
macro_rules! callbacks {
    ($line:ident { $($more:tt)* }) => {
        #[tonic::async_trait]
        impl $line::callbacks_server::Callbacks for Server {
            async fn on_define_domain(
                &self,
                request: Request<$line::OnDefineDomainParams>,
            ) -> Result<Response<$line::OnDefineDomainResult>, Status> {
                let xml = request.into_inner().domain_xml;
                let domain_xml = self.define(stringify!($line), xml).await?;
                Ok(Response::new($line::OnDefineDomainResult { domain_xml }))
            }

            $($more)*
        }
    };
}

callbacks!(v1alpha1 {});

callbacks!(v1alpha2 {
    async fn pre_cloud_init_iso(
        &self,
        request: Request<v1alpha2::PreCloudInitIsoParams>,
    ) -> Result<Response<v1alpha2::PreCloudInitIsoResult>, Status> {
        let params = request.into_inner();
        let (data, source) = (params.cloud_init_data, params.cloud_init_no_cloud_source);
        let (cloud_init_data, cloud_init_no_cloud_source) =
            self.cloud_init("v1alpha2", data, source).await;
        let result =
            v1alpha2::PreCloudInitIsoResult { cloud_init_no_cloud_source, cloud_init_data };
        Ok(Response::new(result))
    }
});

callbacks!(v1alpha3 {
    async fn pre_cloud_init_iso(
        &self,
        request: Request<v1alpha3::PreCloudInitIsoParams>,
    ) -> Result<Response<v1alpha3::PreCloudInitIsoResult>, Status> {
        let params = request.into_inner();
        let (data, source) = (params.cloud_init_data, params.cloud_init_no_cloud_source);
        let (cloud_init_data, cloud_init_no_cloud_source) =
            self.cloud_init("v1alpha3", data, source).await;
        let result =
            v1alpha3::PreCloudInitIsoResult { cloud_init_no_cloud_source, cloud_init_data };
        Ok(Response::new(result))
    }

    async fn shutdown(
        &self,
        _: Request<v1alpha3::ShutdownParams>,
    ) -> Result<Response<v1alpha3::ShutdownResult>, Status> {
        self.called("v1alpha3 Shutdown").await;
        Ok(Response::new(v1alpha3::ShutdownResult {}))
    }
});
