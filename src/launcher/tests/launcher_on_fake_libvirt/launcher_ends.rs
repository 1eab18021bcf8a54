//! When the launcher ends by itself, and when it does not end yet.

use std::time::Duration;

use kubevirt_api::vmi::Vmi;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use virt_launcher::manager::{Command, CommandSuccess};
use virt_launcher::process_lifecycle::run_composed;

use crate::support::migration_target_requests::{INCOMING_DOMAIN, prepare_target};
use crate::support::test_launcher::{DOMAIN, TestLauncher, config, vmi_json};

const TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than a launcher takes to end that waits for nothing.
const WHILE: Duration = Duration::from_millis(700);

/// A running launcher, and the sender of its termination signal, without which its run fails.
struct Run {
    task: JoinHandle<anyhow::Result<()>>,
    _signal: watch::Sender<bool>,
}

impl Run {
    fn start(
        launcher: virt_launcher::process_lifecycle::RunningLauncher,
        paths: &virt_launcher::Paths,
    ) -> Run {
        let (signal, receiver) = watch::channel(false);
        let config = config(paths);
        let task = tokio::spawn(async move { run_composed(launcher, &config, receiver).await });
        Run {
            task,
            _signal: signal,
        }
    }

    /// Waits until the launcher has ended with success.
    async fn end(self) {
        let ended = tokio::time::timeout(TIMEOUT, self.task).await;
        ended.expect("the launcher ends").unwrap().unwrap();
    }
}

/// A target of which libvirt has given up the domain that was to arrive.
async fn target_of_a_failed_migration() -> (virt_launcher::manager::Manager, Run, impl Sized) {
    let launcher = TestLauncher::new().await;
    prepare_target(&launcher, "a").await.unwrap();
    launcher.fake.begin_incoming(INCOMING_DOMAIN).unwrap();
    launcher.notifications_until("ADDED").await;
    let (manager, paths) = (launcher.manager.clone(), launcher.paths.clone());
    launcher.fake.kill_qemu(DOMAIN);
    launcher.notifications_until("NonExistent").await;
    let run = Run::start(launcher.running, &paths);
    (manager, run, (launcher.lost_logs, launcher.fake))
}

/// The source's libvirt is still ending its side of the migration through the target's.
#[tokio::test(flavor = "multi_thread")]
async fn target_of_a_failed_migration_outlives_the_sources_end() {
    let (manager, run, _held) = target_of_a_failed_migration().await;
    tokio::time::sleep(WHILE).await;
    assert!(!run.task.is_finished(), "nobody has told the source's end");
    let mut vmi = vmi_json();
    vmi["status"]["migrationState"] = json!({ "targetPod": "virt-launcher-vm1" });
    let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
    manager.vm().clean_up_target(&vmi);
    tokio::time::timeout(WHILE, run.end())
        .await
        .expect("virt-handler has told the source's end");
}

#[tokio::test(flavor = "multi_thread")]
async fn target_of_a_failed_migration_ends_without_a_clean_up() {
    let (_manager, run, _held) = target_of_a_failed_migration().await;
    run.end().await;
}

/// virt-handler kills and deletes the VM; there is nothing that could be undefined.
#[tokio::test(flavor = "multi_thread")]
async fn launcher_ends_when_a_vm_that_could_not_start_is_deleted() {
    let launcher = TestLauncher::new().await;
    let mut vmi = vmi_json();
    vmi["spec"]["volumes"] = json!([{ "name": "data", "nonsense": {} }]);
    vmi["spec"]["domain"]["devices"]["disks"] = json!([{ "name": "data", "disk": {} }]);
    crate::support::test_launcher::sync_vmi(&launcher, &vmi)
        .await
        .unwrap_err();
    let (manager, paths) = (launcher.manager.clone(), launcher.paths.clone());
    let run = Run::start(launcher.running, &paths);
    let killed = manager.run(Command::Kill).await.unwrap();
    assert_eq!(killed, CommandSuccess::Unchanged);
    manager.run(Command::Delete).await.unwrap();
    run.end().await;
}

/// It may have been meant for an earlier launcher of the same VM.
#[tokio::test(flavor = "multi_thread")]
async fn launcher_that_was_not_asked_to_start_its_vm_stays_after_a_delete() {
    let launcher = TestLauncher::new().await;
    let (manager, paths) = (launcher.manager.clone(), launcher.paths.clone());
    let run = Run::start(launcher.running, &paths);
    manager.run(Command::Delete).await.unwrap();
    tokio::time::sleep(WHILE).await;
    assert!(!run.task.is_finished());
}

/// Its tasks fail, because the sender of messages about lost logs is gone.
#[tokio::test(flavor = "multi_thread")]
async fn launcher_that_cannot_go_on_tells_virt_handler_why() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    let (handler, paths) = (launcher.handler.clone(), launcher.paths.clone());
    drop(launcher.lost_logs);
    let run = Run::start(launcher.running, &paths);
    let ended = tokio::time::timeout(TIMEOUT, run.task).await;
    let error = ended.expect("the launcher ends").unwrap().unwrap_err();
    let event = format!("EVENT LauncherFailed: {error}");
    let notifications = handler.notifications();
    assert!(
        notifications.contains(&event),
        "{event}: {notifications:#?}"
    );
}
