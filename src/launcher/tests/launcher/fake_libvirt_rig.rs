//! A launcher on a fake libvirt, without daemons and QEMU, and a virt-handler that records its notifications.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::host_facts::HostFacts;
use hook_host::{
    AttachTime, CloudInitDocuments, HookError, Invocation, MigrationParameters, Plugins,
    Provenance, Run,
};
use kubevirt_api::vmi::Vmi;
use libvirt::fake::FakeDaemon;
use proto::notify::info::notify_info_server::{NotifyInfo, NotifyInfoServer};
use proto::notify::info::{NotifyInfoRequest, NotifyInfoResponse};
use proto::notify::v1::notify_server::{Notify, NotifyServer};
use proto::notify::v1::{DomainEventRequest, K8sEventRequest, Response as HandlerResponse};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};
use virt_launcher::hooks::Hooks;
use virt_launcher::launcher::{Composition, RunningLauncher};
use virt_launcher::manager::{Identity, Manager, SyncRequest};
use virt_launcher::{BootResources, MigrationLog, Paths, PollIntervals};

pub(crate) const DOMAIN: &str = "default_vm1";
const SOON: Duration = Duration::from_secs(10);

/// Everything of one test.
pub(crate) struct Rig {
    pub(crate) fake: FakeDaemon,
    /// The daemon of a migration's target.
    pub(crate) target: FakeDaemon,
    pub(crate) manager: Manager,
    pub(crate) handler: Handler,
    pub(crate) paths: Paths,
    /// What libvirt's daemon logs about migrations.
    pub(crate) migration_log: MigrationLog,
    _launcher: RunningLauncher,
    _directory: TempDir,
}

impl Rig {
    pub(crate) async fn new() -> Rig {
        Rig::with(Arc::new(ScriptedHooks::default())).await
    }

    pub(crate) async fn with(hooks: Arc<dyn Hooks>) -> Rig {
        Rig::build(hooks, false).await
    }

    /// With `--vm-stats-collector`.
    pub(crate) async fn with_stats(hooks: Arc<dyn Hooks>) -> Rig {
        Rig::build(hooks, true).await
    }

    async fn build(hooks: Arc<dyn Hooks>, vm_stats_collector: bool) -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let paths = Paths::kubevirt(true, "1234").below(directory.path());
        std::fs::create_dir_all(&paths.share).unwrap();
        let handler = Handler::default();
        handler.serve(paths.notify_socket());
        let (fake, target) = (FakeDaemon::new(), FakeDaemon::new());
        let facts = HostFacts {
            ovmf_path: ovmf(&paths).to_str().unwrap().to_owned(),
            ..HostFacts::default()
        };
        let migration_log = MigrationLog::default();
        let composition = Composition {
            paths: paths.clone(),
            identity: Identity::new("default", "vm1", "1234"),
            pod_name: "virt-launcher-vm1".into(),
            libvirt_uri: "fake:///".into(),
            connect: {
                let fake = fake.clone();
                Arc::new(move || fake.connect())
            },
            connect_target: {
                let target = target.clone();
                Arc::new(move |_: &str| target.connect())
            },
            hooks,
            boot_resources: BootResources::new(&paths, facts, 1 << 30),
            poll_intervals: PollIntervals::default(),
            vm_stats_collector,
            migration_hooks: false,
            lost_logs: None,
            migration_log: migration_log.clone(),
        };
        let launcher = composition.start().await.unwrap();
        Rig {
            fake,
            target,
            manager: launcher.manager.clone(),
            handler,
            paths,
            migration_log,
            _launcher: launcher,
            _directory: directory,
        }
    }

    /// `--ovmf-path`; it is empty.
    pub(crate) fn ovmf(&self) -> PathBuf {
        ovmf(&self.paths)
    }

    /// The notifications, once there are at least `count`.
    pub(crate) async fn notifications(&self, count: usize) -> Vec<String> {
        self.until(|notifications| notifications.len() >= count)
            .await
    }

    /// The notifications, once one of them contains `text`.
    pub(crate) async fn notifications_until(&self, text: &str) -> Vec<String> {
        self.until(|notifications| notifications.iter().any(|one| one.contains(text)))
            .await
    }

    async fn until(&self, enough: impl Fn(&[String]) -> bool) -> Vec<String> {
        let waiting = async {
            loop {
                let notifications = self.handler.notifications();
                if enough(&notifications) {
                    // A surplus notification would follow now.
                    tokio::time::sleep(Duration::from_millis(30)).await;
                    self.manager.vm().notifier.flush(SOON).await;
                    return self.handler.notifications();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(SOON, waiting).await;
        waited.unwrap_or_else(|_| {
            panic!(
                "virt-handler only heard {:#?}",
                self.handler.notifications()
            )
        })
    }
}

fn ovmf(paths: &Paths) -> PathBuf {
    paths.private.join("ovmf")
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

/// A virt-handler that records its notifications, a line each:
/// `ADDED uid= Shutoff/Unknown`, `MODIFIED uid=1234 Running/Unknown grace=5`.
#[derive(Clone, Default)]
pub(crate) struct Handler {
    notifications: Arc<Mutex<Vec<String>>>,
    behavior: Arc<Mutex<HandlerBehavior>>,
}

/// How it responds to notifications.
#[derive(Clone, Copy, Default)]
struct HandlerBehavior {
    refuses: bool,
    delay: Duration,
}

impl Handler {
    fn serve(&self, socket: PathBuf) {
        let listener = UnixListener::bind(socket).unwrap();
        let server = tonic::transport::Server::builder()
            .add_service(NotifyInfoServer::new(self.clone()))
            .add_service(NotifyServer::new(self.clone()));
        tokio::spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
    }

    pub(crate) fn notifications(&self) -> Vec<String> {
        self.notifications.lock().unwrap().clone()
    }

    /// Delays the response to each notification.
    pub(crate) fn delay(&self, delay: Duration) {
        self.behavior.lock().unwrap().delay = delay;
    }

    /// Refuses notifications, or accepts them again.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.behavior.lock().unwrap().refuses = refuses;
    }

    async fn record(&self, line: String) -> Result<Response<HandlerResponse>, Status> {
        let behavior = *self.behavior.lock().unwrap();
        tokio::time::sleep(behavior.delay).await;
        if behavior.refuses {
            return Err(Status::unavailable("no virt-handler"));
        }
        self.notifications.lock().unwrap().push(line);
        Ok(Response::new(HandlerResponse {
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
    let dump = domain.pointer("/Spec/Metadata/KubeVirt/MemoryDump");
    if let Some(dump) = dump.filter(|dump| !dump.is_null()) {
        let how = match (dump["Completed"] == true, dump["Failed"] == true) {
            (false, _) => "begun",
            (true, false) => "completed",
            (true, true) => "failed",
        };
        line.push_str(&format!(" dump={how}"));
    }
    let migration = domain.pointer("/Spec/Metadata/KubeVirt/Migration");
    if let Some(migration) = migration.filter(|migration| !migration.is_null()) {
        line.push_str(&describe_migration(migration));
    }
    for (name, pointer) in [
        ("os", "/Status/OSInfo/Name"),
        ("ip", "/Status/Interfaces/0/Ip"),
        ("freeze", "/Status/FSFreezeStatus/Status"),
    ] {
        if !text(pointer).is_empty() {
            line.push_str(&format!(" {name}={}", text(pointer)));
        }
    }
    if domain.pointer("/ObjectMeta/deletionTimestamp").is_some() {
        line.push_str(" gone");
    }
    line
}

/// ` migration=UID PreCopy`, and ` Aborting`, ` ended`, ` failed: REASON` as it goes on.
fn describe_migration(record: &Value) -> String {
    let text = |field: &str| record[field].as_str().unwrap_or_default().to_owned();
    let mut line = format!(" migration={} {}", text("UID"), text("Mode"));
    if !text("AbortStatus").is_empty() {
        line.push_str(&format!(" {}", text("AbortStatus")));
    }
    if record["EndTimestamp"].is_string() {
        line.push_str(" ended");
    }
    if record["Failed"] == true {
        line.push_str(&format!(" failed: {}", text("FailureReason")));
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
    ) -> Result<Response<HandlerResponse>, Status> {
        let request = request.into_inner();
        let domain = serde_json::from_slice(&request.domain_json).unwrap();
        self.record(describe(&request.event_type, &domain)).await
    }

    async fn handle_k8s_event(
        &self,
        request: Request<K8sEventRequest>,
    ) -> Result<Response<HandlerResponse>, Status> {
        let event: Value = serde_json::from_slice(&request.into_inner().event_json).unwrap();
        self.record(format!(
            "EVENT {}: {}",
            event["reason"].as_str().unwrap(),
            event["message"].as_str().unwrap()
        ))
        .await
    }
}

/// Hooks that count their calls, and fail or hang as told.
#[derive(Default)]
pub(crate) struct ScriptedHooks {
    pub(crate) calls: Mutex<Vec<&'static str>>,
    pub(crate) veto: Mutex<Option<String>>,
    pub(crate) hang: bool,
    /// A device with this text in its XML is refused.
    pub(crate) refuse_device: Mutex<Option<String>>,
    pub(crate) omits_applied_events: bool,
    /// What PreStart and OnDefineDomain return.
    pub(crate) runs: Mutex<Vec<Run>>,
    /// The next device that is attached meets this error.
    pub(crate) attach_error: Mutex<Option<HookError>>,
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
    async fn pre_start(&self, _: &Invocation, vmi: &str) -> Result<Vec<Run>, HookError> {
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
            None => Ok(self.runs.lock().unwrap().clone()),
        }
    }

    async fn pre_migration_source(
        &self,
        invocation: &Invocation,
        _: &str,
        parameters: MigrationParameters,
    ) -> Result<MigrationParameters, HookError> {
        self.called("PreMigrationSource");
        assert_eq!(invocation.reason.name(), "migration-source");
        match self.veto.lock().unwrap().clone() {
            Some(message) => Err(HookError::Veto {
                hook: "policy".into(),
                point: hook_host::HookPoint::PreMigrationSource,
                message,
            }),
            None => Ok(MigrationParameters {
                bandwidth: 7 << 20,
                ..parameters
            }),
        }
    }

    async fn pre_cloud_init_iso(
        &self,
        _: &Invocation,
        _: &str,
        documents: CloudInitDocuments,
    ) -> Result<(CloudInitDocuments, Vec<Run>), HookError> {
        self.called("PreCloudInitIso");
        Ok((documents, Vec::new()))
    }

    async fn on_define_domain(
        &self,
        _: &Invocation,
        _: &str,
        xml: String,
        _: &Plugins,
    ) -> Result<(String, Vec<Run>), HookError> {
        self.called("OnDefineDomain");
        Ok((xml, self.runs.lock().unwrap().clone()))
    }

    async fn on_attach_device(
        &self,
        invocation: &Invocation,
        _: &str,
        xml: String,
        _: &AttachTime,
    ) -> Result<(String, Provenance), HookError> {
        self.called("OnAttachDevice");
        assert_eq!(invocation.reason.name(), "hotplug");
        if let Some(error) = self.attach_error.lock().unwrap().take() {
            return Err(error);
        }
        let refused = self.refuse_device.lock().unwrap().clone();
        match refused {
            Some(device) if xml.contains(&device) => Err(HookError::Veto {
                hook: "policy".into(),
                point: hook_host::HookPoint::OnAttachDevice,
                message: format!("no {device}"),
            }),
            _ => Ok((
                xml.replace("</hostdev>", "<rom bar='off'/></hostdev>"),
                Provenance::default(),
            )),
        }
    }

    fn named_in(&self, refusal: &str) -> Option<(String, String)> {
        let named = refusal.contains("rainbow");
        named.then(|| ("painter".into(), "/domain/devices/video".into()))
    }

    fn publishes_applied_events(&self) -> bool {
        !self.omits_applied_events
    }

    async fn shutdown(&self, _: &Invocation) -> Vec<Run> {
        self.called("Shutdown");
        Vec::new()
    }
}
