//! The launcher under test, on a fake libvirt, with a virt-handler that records its notifications.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::host_facts::HostFacts;
use domain::kubevirt_version::KubeVirtVersion;
use hook_host::Plugins;
use kubevirt_api::vmi::Vmi;
use libvirt::fake::FakeDaemon;
use libvirt::{DomainState, XmlKind};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use virt_launcher::hooks_trait::Hooks;
use virt_launcher::manager::{Command, CommandResult, Identity, Manager, SyncRequest};
use virt_launcher::process_lifecycle::{Composition, RunningLauncher};
use virt_launcher::{BootResources, Config, MigrationErrorLog, Paths, PollIntervals};

use super::recording_virt_handler::RecordingVirtHandler;
use super::scripted_hooks::ScriptedHooks;

pub(crate) const DOMAIN: &str = "default_vm1";
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(10);

/// A launcher with `--vm-stats-collector` and a running VM.
pub(crate) async fn launcher_with_vm_stats() -> TestLauncher {
    let facts = HostFacts::default();
    let launcher = TestLauncher::build(Arc::new(ScriptedHooks::default()), true, facts).await;
    launcher.sync_vm().await.unwrap();
    launcher
}

/// A launcher of this version of KubeVirt, whose VM runs, and whose virt-handler was notified of that.
pub(crate) async fn launcher_of_version_with_running_vm(version: KubeVirtVersion) -> TestLauncher {
    let facts = HostFacts {
        kubevirt_version: version,
        ..HostFacts::default()
    };
    let launcher = TestLauncher::build(Arc::new(ScriptedHooks::default()), false, facts).await;
    launcher.sync_vm().await.unwrap();
    launcher.notifications_until("Running").await;
    launcher
}

/// A launcher whose VM runs, and whose virt-handler was notified of that.
pub(crate) async fn launcher_with_running_vm() -> TestLauncher {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    launcher.notifications_until("Running").await;
    launcher
}

/// A launcher with its fake libvirt daemons, its files, and the virt-handler that it notifies.
pub(crate) struct TestLauncher {
    /// The libvirt daemon of the launcher's pod.
    pub(crate) fake: FakeDaemon,
    /// The libvirt daemon of a migration's target.
    pub(crate) target_fake: FakeDaemon,
    pub(crate) manager: Manager,
    pub(crate) handler: RecordingVirtHandler,
    pub(crate) paths: Paths,
    /// The errors of migrations that libvirt's daemon has logged.
    pub(crate) migration_log: MigrationErrorLog,
    pub(crate) running: RunningLauncher,
    /// Sends messages about lost logs; without it, the task that reports them fails. It is dropped after that task.
    pub(crate) lost_logs: watch::Sender<Option<String>>,
    _directory: TempDir,
}

impl TestLauncher {
    pub(crate) async fn new() -> TestLauncher {
        TestLauncher::with_hooks(Arc::new(ScriptedHooks::default())).await
    }

    pub(crate) async fn with_hooks(hooks: Arc<dyn Hooks>) -> TestLauncher {
        TestLauncher::build(hooks, false, HostFacts::default()).await
    }

    async fn build(
        hooks: Arc<dyn Hooks>,
        vm_stats_collector: bool,
        facts: HostFacts,
    ) -> TestLauncher {
        let directory = tempfile::tempdir().unwrap();
        let paths = Paths::kubevirt(true, "1234").below(directory.path());
        std::fs::create_dir_all(&paths.share).unwrap();
        let handler = RecordingVirtHandler::default();
        handler.serve(paths.notify_socket());
        let (fake, target_fake) = (FakeDaemon::new(), FakeDaemon::new());
        let facts = HostFacts {
            ovmf_path: ovmf_path(&paths).to_str().unwrap().to_owned(),
            ..facts
        };
        let migration_log = MigrationErrorLog::default();
        let (lost_logs, lost_logs_receiver) = watch::channel(None);
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
                let target_fake = target_fake.clone();
                Arc::new(move |_: &str| target_fake.connect())
            },
            hooks,
            boot_resources: BootResources::new(&paths, facts, 1 << 30),
            poll_intervals: PollIntervals::default(),
            vm_stats_collector,
            migration_hooks: false,
            lost_logs: Some(lost_logs_receiver),
            migration_log: migration_log.clone(),
        };
        let launcher = composition.start().await.unwrap();
        TestLauncher {
            fake,
            target_fake,
            manager: launcher.manager.clone(),
            handler,
            paths,
            migration_log,
            running: launcher,
            lost_logs,
            _directory: directory,
        }
    }

    /// Synchronizes the VM with the VMI of [`vmi_json`], which starts the VM if it does not run.
    pub(crate) async fn sync_vm(&self) -> CommandResult {
        self.manager.run(Command::sync(sync_request())).await
    }

    /// The directory of `--ovmf-path`, which is empty.
    pub(crate) fn ovmf_path(&self) -> PathBuf {
        ovmf_path(&self.paths)
    }

    /// Waits for at least `count` notifications. Returns all.
    pub(crate) async fn notifications(&self, count: usize) -> Vec<String> {
        self.wait_for_notifications(|notifications| notifications.len() >= count)
            .await
    }

    /// Waits for a notification that contains `text`. Returns all.
    pub(crate) async fn notifications_until(&self, text: &str) -> Vec<String> {
        self.wait_for_notifications(|notifications| {
            notifications.iter().any(|line| line.contains(text))
        })
        .await
    }

    async fn wait_for_notifications(
        &self,
        are_complete: impl Fn(&[String]) -> bool,
    ) -> Vec<String> {
        let wait = async {
            loop {
                let notifications = self.handler.notifications();
                if are_complete(&notifications) {
                    // Time for surplus notifications, which the caller would notice.
                    tokio::time::sleep(Duration::from_millis(30)).await;
                    self.manager.vm().notifier.flush(NOTIFICATION_TIMEOUT).await;
                    return self.handler.notifications();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let result = tokio::time::timeout(NOTIFICATION_TIMEOUT, wait).await;
        result.unwrap_or_else(|_| {
            panic!(
                "virt-handler only received {:#?}",
                self.handler.notifications()
            )
        })
    }
}

/// The configuration of a launcher with these paths, for running it until its end.
pub(crate) fn config(paths: &Paths) -> Config {
    let nowhere = Path::new("/nonexistent");
    let config = Config::from_parts(&["virt-launcher".into()], |_| None, nowhere, nowhere);
    Config {
        paths: paths.clone(),
        ..config.unwrap()
    }
}

fn ovmf_path(paths: &Paths) -> PathBuf {
    paths.private.join("ovmf")
}

/// A VMI without disks.
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

/// The VMI of [`vmi_json`].
pub(crate) fn vmi() -> Vmi {
    Vmi::from_json(vmi_json().to_string().as_bytes()).unwrap()
}

/// A SyncVirtualMachine request.
pub(crate) fn sync_request_for(vmi: Vmi) -> SyncRequest {
    SyncRequest {
        plugins: Plugins::default(),
        vmi,
        options: Default::default(),
        allow_emulation: true,
    }
}

/// The request for the VMI of [`vmi_json`].
pub(crate) fn sync_request() -> SyncRequest {
    sync_request_for(vmi())
}

/// The state of the domain; `None` if the domain does not exist.
pub(crate) fn domain_state(launcher: &TestLauncher) -> Option<DomainState> {
    launcher.fake.state(DOMAIN).map(|state| state.state)
}

/// The number of notifications that contain `text`.
pub(crate) fn count_containing(notifications: &[String], text: &str) -> usize {
    notifications
        .iter()
        .filter(|line| line.contains(text))
        .count()
}

/// The XML of the domain.
pub(crate) fn domain_xml(launcher: &TestLauncher, kind: XmlKind) -> String {
    let hypervisor = launcher.fake.connect().unwrap();
    let domain = hypervisor.lookup(DOMAIN).unwrap().unwrap();
    domain.xml(kind).unwrap()
}

/// Synchronizes the VM with a VMI.
pub(crate) async fn sync_vmi(launcher: &TestLauncher, vmi: &Value) -> CommandResult {
    let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
    let sync = Command::sync(sync_request_for(vmi));
    launcher.manager.run(sync).await
}

/// Waits until a condition holds, at most about 5 s.
pub(crate) async fn wait_for(condition: &str, holds: impl AsyncFn() -> bool) {
    for _ in 0..6000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("waited in vain for {condition}");
}
