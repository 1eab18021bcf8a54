//! A launcher without daemons and QEMU, with virt-handler played in full.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::host::HostFacts;
use domain::vmi::Vmi;
use hook_host::{CloudInitDocuments, HookError, Invocation, Plugins, Run};
use libvirt::fake::Fake;
use proto::notify::info::notify_info_server::{NotifyInfo, NotifyInfoServer};
use proto::notify::info::{NotifyInfoRequest, NotifyInfoResponse};
use proto::notify::v1::notify_server::{Notify, NotifyServer};
use proto::notify::v1::{DomainEventRequest, K8sEventRequest, Response as Told};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};
use virt_launcher::Places;
use virt_launcher::cloud_init::SecretDirectory;
use virt_launcher::command::{CommandService, Server};
use virt_launcher::disks::DiskTools;
use virt_launcher::host::IommuFd;
use virt_launcher::manager::connection::{Connect, Connection};
use virt_launcher::manager::hooks::Hooks;
use virt_launcher::manager::preparation::Preparation;
use virt_launcher::manager::{Identity, Manager, Parts, SyncRequest};
use virt_launcher::network::PodNetwork;
use virt_launcher::notify::{Involved, Notifier, Retry};

pub(crate) const DOMAIN: &str = "default_vm1";
const SOON: Duration = Duration::from_secs(10);

/// Everything of one test.
pub(crate) struct Rig {
    pub(crate) fake: Fake,
    pub(crate) manager: Manager,
    pub(crate) handler: Handler,
    pub(crate) places: Places,
    notifier: Notifier,
    _server: Server,
    _directory: TempDir,
}

impl Rig {
    pub(crate) async fn new() -> Rig {
        Rig::with(Arc::new(ScriptedHooks::default())).await
    }

    pub(crate) async fn with(hooks: Arc<dyn Hooks>) -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let places = Places::kubevirt(true, "1234").below(directory.path());
        std::fs::create_dir_all(&places.share).unwrap();
        let handler = Handler::default();
        handler.serve(places.notify_socket());
        let fake = Fake::new();
        let connect: Connect = {
            let fake = fake.clone();
            Arc::new(move || fake.connect())
        };
        let connection = Connection::open("fake:///", connect, SOON).await.unwrap();
        let notifier = Notifier::start(&places.notify_socket(), about(), Retry::default());
        let parts = Parts {
            identity: Identity::new("default", "vm1", "1234"),
            connection: Arc::clone(&connection),
            notifier: notifier.clone(),
            hooks,
            preparation: preparation(&places),
            qemu_log: places.qemu_log("default_vm1"),
        };
        let spawned = parts.spawn();
        let manager = spawned.manager;
        let mut server =
            Server::start(&places, CommandService::new(manager.clone(), false)).unwrap();
        connection.monitor(spawned.facts).await.unwrap();
        server.mark_ready(&places).unwrap();
        Rig {
            fake,
            manager,
            handler,
            places,
            notifier,
            _server: server,
            _directory: directory,
        }
    }

    /// What virt-handler has heard, once at least `count` things are there.
    pub(crate) async fn heard(&self, count: usize) -> Vec<String> {
        self.until(|heard| heard.len() >= count).await
    }

    /// The same, once something heard contains `text`.
    pub(crate) async fn heard_of(&self, text: &str) -> Vec<String> {
        self.until(|heard| heard.iter().any(|one| one.contains(text)))
            .await
    }

    async fn until(&self, enough: impl Fn(&[String]) -> bool) -> Vec<String> {
        let waiting = async {
            loop {
                let heard = self.handler.heard();
                if enough(&heard) {
                    // Nothing may follow unnoticed.
                    tokio::time::sleep(Duration::from_millis(30)).await;
                    self.notifier.flush(SOON).await;
                    return self.handler.heard();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(SOON, waiting).await;
        waited.unwrap_or_else(|_| panic!("virt-handler only heard {:#?}", self.handler.heard()))
    }
}

fn about() -> Involved {
    Involved {
        name: "vm1".into(),
        namespace: "default".into(),
        uid: "1234".into(),
    }
}

fn preparation(places: &Places) -> Preparation {
    Preparation {
        facts: HostFacts::default(),
        tools: DiskTools::new(1 << 30),
        secrets: SecretDirectory(places.private.join("secret")),
        container_disks: places.container_disks.clone(),
        network: PodNetwork::kubevirt(&places.private),
        image_volumes: None,
        known_disks: Default::default(),
        iommufd: IommuFd::served_at(places.iommufd_socket()),
        test_driver: false,
    }
}

/// A VMI that needs no disk.
pub(crate) fn vmi_json() -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm1", "namespace": "default", "uid": "1234"},
        "spec": {
            "architecture": "amd64",
            "terminationGracePeriodSeconds": 5,
            "domain": {
                "devices": {"autoattachPodInterface": false},
                "machine": {"type": "q35"},
                "memory": {"guest": "128Mi"},
                "cpu": {"cores": 1, "sockets": 1, "threads": 1},
                "firmware": {"uuid": "c5f0a5bc-1322-45b2-9526-5886dc7e2740"},
                "resources": {"requests": {"memory": "128Mi"}}
            }
        },
        "status": {"runtimeUser": 107}
    })
}

pub(crate) fn vmi() -> Vmi {
    Vmi::from_json(vmi_json().to_string().as_bytes()).unwrap()
}

pub(crate) fn sync_of(vmi: Vmi) -> SyncRequest {
    SyncRequest {
        plugins: Plugins::default(),
        vmi,
        options: Default::default(),
        allow_emulation: true,
    }
}

pub(crate) fn sync() -> SyncRequest {
    sync_of(vmi())
}

/// A virt-handler that writes down what it hears, a line each:
/// `ADDED uid= Shutoff/Unknown`, `MODIFIED uid=1234 Running/Unknown grace=5`.
#[derive(Clone, Default)]
pub(crate) struct Handler(Arc<Mutex<Vec<String>>>);

impl Handler {
    fn serve(&self, socket: PathBuf) {
        let listener = UnixListener::bind(socket).unwrap();
        let server = tonic::transport::Server::builder()
            .add_service(NotifyInfoServer::new(self.clone()))
            .add_service(NotifyServer::new(self.clone()));
        tokio::spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
    }

    fn heard(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn hear(&self, line: String) -> Result<Response<Told>, Status> {
        self.0.lock().unwrap().push(line);
        Ok(Response::new(Told {
            success: true,
            message: String::new(),
        }))
    }
}

fn describe(event_type: &str, domain: &Value) -> String {
    let text = |pointer: &str| {
        domain
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or("")
            .to_owned()
    };
    let mut line = format!(
        "{event_type} uid={} {}/{}",
        text("/ObjectMeta/uid"),
        text("/Status/Status"),
        text("/Status/Reason")
    );
    let grace = domain.pointer("/Spec/Metadata/KubeVirt/GracePeriod");
    if let Some(seconds) = grace.and_then(|grace| grace["DeletionGracePeriodSeconds"].as_i64()) {
        line.push_str(&format!(" grace={seconds}"));
    }
    if grace.is_some_and(|grace| grace["DeletionTimestamp"].is_string()) {
        line.push_str(" deleting");
    }
    if grace.is_some_and(|grace| grace["MarkedForGracefulShutdown"] == true) {
        line.push_str(" marked");
    }
    let credentials = domain.pointer("/Spec/Metadata/KubeVirt/AccessCredential");
    if let Some(known) = credentials.filter(|known| !known.is_null()) {
        let problem = known["Message"].as_str().filter(|text| !text.is_empty());
        line.push_str(&format!(" credentials={}", problem.unwrap_or("set")));
    }
    if domain.pointer("/ObjectMeta/deletionTimestamp").is_some() {
        line.push_str(" gone");
    }
    line
}

#[tonic::async_trait]
impl NotifyInfo for Handler {
    async fn info(
        &self,
        _: Request<NotifyInfoRequest>,
    ) -> Result<Response<NotifyInfoResponse>, Status> {
        Ok(Response::new(NotifyInfoResponse {
            supported_notify_versions: vec![1],
        }))
    }
}

#[tonic::async_trait]
impl Notify for Handler {
    async fn handle_domain_event(
        &self,
        request: Request<DomainEventRequest>,
    ) -> Result<Response<Told>, Status> {
        let request = request.into_inner();
        let domain = serde_json::from_slice(&request.domain_json).unwrap();
        self.hear(describe(&request.event_type, &domain))
    }

    async fn handle_k8s_event(
        &self,
        request: Request<K8sEventRequest>,
    ) -> Result<Response<Told>, Status> {
        let event: Value = serde_json::from_slice(&request.into_inner().event_json).unwrap();
        self.hear(format!(
            "EVENT {}: {}",
            event["reason"].as_str().unwrap(),
            event["message"].as_str().unwrap()
        ))
    }
}

/// Hooks that count their calls, and fail or hang as told.
#[derive(Default)]
pub(crate) struct ScriptedHooks {
    pub(crate) calls: Mutex<Vec<&'static str>>,
    pub(crate) veto: Mutex<Option<String>>,
    pub(crate) hang: bool,
}

impl ScriptedHooks {
    pub(crate) fn count(&self, call: &str) -> usize {
        self.calls
            .lock()
            .unwrap()
            .iter()
            .filter(|made| **made == call)
            .count()
    }

    fn called(&self, call: &'static str) {
        self.calls.lock().unwrap().push(call);
    }
}

#[tonic::async_trait]
impl Hooks for ScriptedHooks {
    async fn pre_start(&self, _: &Invocation, vmi: &str) -> Result<(), HookError> {
        self.called("PreStart");
        assert!(vmi.contains("vm1"));
        if self.hang {
            std::future::pending::<()>().await;
        }
        match self.veto.lock().unwrap().clone() {
            Some(message) => Err(HookError::Veto {
                hook: "policy".into(),
                point: hook_host::HookPoint::PreStart,
                message,
            }),
            None => Ok(()),
        }
    }

    async fn pre_cloud_init_iso(
        &self,
        _: &Invocation,
        _: &str,
        documents: CloudInitDocuments,
    ) -> Result<CloudInitDocuments, HookError> {
        self.called("PreCloudInitIso");
        Ok(documents)
    }

    async fn on_define_domain(
        &self,
        _: &Invocation,
        _: &str,
        xml: String,
        _: &Plugins,
    ) -> Result<String, HookError> {
        self.called("OnDefineDomain");
        Ok(xml)
    }

    fn named_in(&self, refusal: &str) -> Option<(String, String)> {
        let named = refusal.contains("rainbow");
        named.then(|| ("painter".into(), "/domain/devices/video".into()))
    }

    async fn shutdown(&self, _: &Invocation) -> Vec<Run> {
        self.called("Shutdown");
        Vec::new()
    }
}
