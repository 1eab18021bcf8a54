//! A real plugin's sidecar behind a unix socket, with its answer for the test to say.

use std::path::Path;
use std::sync::{Arc, Mutex};

use proto::hooks::plugins::v1alpha1::domain_hook_service_server::{
    DomainHookService, DomainHookServiceServer,
};
use proto::hooks::plugins::v1alpha1::{MutateDomainRequest, MutateDomainResponse};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

type Mutate = Box<dyn Fn(String) -> String + Send + Sync>;

/// What it says.
pub enum Answer {
    Domain(Mutate),
    Bytes(Vec<u8>),
    Error(&'static str),
    Never,
}

/// What it was asked.
#[derive(Clone)]
pub struct Asked {
    pub domain_type: String,
    pub domain: String,
    pub vmi: String,
    pub context: String,
}

/// A sidecar that serves until it is dropped.
pub struct PluginServer {
    task: tokio::task::JoinHandle<()>,
    calls: Arc<Mutex<Vec<Asked>>>,
}

impl PluginServer {
    pub fn serve(socket: &Path, answer: Answer) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let server = Server {
            answer,
            calls: calls.clone(),
        };
        let router =
            tonic::transport::Server::builder().add_service(DomainHookServiceServer::new(server));
        let task = tokio::spawn(async move {
            let incoming = UnixListenerStream::new(listener);
            router.serve_with_incoming(incoming).await.unwrap();
        });
        Self { task, calls }
    }

    pub fn calls(&self) -> Vec<Asked> {
        self.calls.lock().unwrap().clone()
    }
}

impl Drop for PluginServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Server {
    answer: Answer,
    calls: Arc<Mutex<Vec<Asked>>>,
}

#[tonic::async_trait]
impl DomainHookService for Server {
    async fn mutate_domain(
        &self,
        request: Request<MutateDomainRequest>,
    ) -> Result<Response<MutateDomainResponse>, Status> {
        let request = request.into_inner();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let asked = Asked {
            domain_type: request.domain_type,
            domain: text(request.domain),
            vmi: text(request.vmi),
            context: request
                .sidecar_context
                .unwrap_or_default()
                .invocation_context,
        };
        self.calls.lock().unwrap().push(asked.clone());
        let domain = match &self.answer {
            Answer::Domain(mutate) => mutate(asked.domain).into_bytes(),
            Answer::Bytes(bytes) => bytes.clone(),
            Answer::Error(message) => return Err(Status::internal(*message)),
            Answer::Never => std::future::pending().await,
        };
        Ok(Response::new(MutateDomainResponse { domain }))
    }
}
