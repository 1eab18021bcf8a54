//! A launcher on a fake libvirt, without daemons and QEMU, and a virt-handler that records its notifications.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::host_facts::HostFacts;
use hook_host::Plugins;
use kubevirt_api::vmi::Vmi;
use libvirt::DomainState;
use libvirt::fake::FakeDaemon;
use serde_json::{Value, json};
use tempfile::TempDir;
use virt_launcher::hooks_trait::Hooks;
use virt_launcher::launcher::{Composition, RunningLauncher};
use virt_launcher::manager::{Command, Identity, Manager, SyncRequest};
use virt_launcher::{BootResources, MigrationErrorLog, Paths, PollIntervals};

use crate::recording_virt_handler::RecordingVirtHandler;
use crate::scripted_hooks::ScriptedHooks;

pub(crate) const DOMAIN: &str = "default_vm1";
const SOON: Duration = Duration::from_secs(10);

/// A VM that was started by a launcher with `--vm-stats-collector`.
pub(crate) async fn running_with_stats() -> TestLauncher {
    let launcher = TestLauncher::build(Arc::new(ScriptedHooks::default()), true).await;
    launcher.manager.run(Command::sync(sync())).await.unwrap();
    launcher
}

/// A launcher with its fake daemons, its files, and the virt-handler that it notifies.
pub(crate) struct TestLauncher {
    pub(crate) fake: FakeDaemon,
    /// The daemon of a migration's target.
    pub(crate) target: FakeDaemon,
    pub(crate) manager: Manager,
    pub(crate) handler: RecordingVirtHandler,
    pub(crate) paths: Paths,
    /// What libvirt's daemon logs about migrations.
    pub(crate) migration_log: MigrationErrorLog,
    _running: RunningLauncher,
    _directory: TempDir,
}

impl TestLauncher {
    pub(crate) async fn new() -> TestLauncher {
        TestLauncher::with(Arc::new(ScriptedHooks::default())).await
    }

    pub(crate) async fn with(hooks: Arc<dyn Hooks>) -> TestLauncher {
        TestLauncher::build(hooks, false).await
    }

    async fn build(hooks: Arc<dyn Hooks>, vm_stats_collector: bool) -> TestLauncher {
        let directory = tempfile::tempdir().unwrap();
        let paths = Paths::kubevirt(true, "1234").below(directory.path());
        std::fs::create_dir_all(&paths.share).unwrap();
        let handler = RecordingVirtHandler::default();
        handler.serve(paths.notify_socket());
        let (fake, target) = (FakeDaemon::new(), FakeDaemon::new());
        let facts = HostFacts {
            ovmf_path: ovmf(&paths).to_str().unwrap().to_owned(),
            ..HostFacts::default()
        };
        let migration_log = MigrationErrorLog::default();
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
        TestLauncher {
            fake,
            target,
            manager: launcher.manager.clone(),
            handler,
            paths,
            migration_log,
            _running: launcher,
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

/// The state of the domain; `None` if there is none.
pub(crate) fn state(launcher: &TestLauncher) -> Option<DomainState> {
    launcher.fake.state(DOMAIN).map(|state| state.state)
}

/// The number of notifications that contain `text`.
pub(crate) fn count(notifications: &[String], text: &str) -> usize {
    notifications
        .iter()
        .filter(|line| line.contains(text))
        .count()
}
