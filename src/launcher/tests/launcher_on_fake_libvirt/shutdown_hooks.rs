//! The shutdown hooks run once, however the launcher ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use virt_launcher::manager::Command;
use virt_launcher::process_lifecycle::run_composed;

use crate::support::scripted_hooks::ScriptedHooks;
use crate::support::test_launcher::{TestLauncher, config, wait_for};

const TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn hooks_run_once_if_a_task_fails_after_the_end_of_the_vm() {
    let hooks = Arc::new(ScriptedHooks::default());
    let launcher = TestLauncher::with_hooks(hooks.clone()).await;
    launcher.sync_vm().await.unwrap();
    let manager = launcher.manager.clone();
    let (_signal, receiver) = watch::channel(false);
    let config = config(&launcher.paths);
    let run = tokio::spawn(async move { run_composed(launcher.running, &config, receiver).await });
    manager.run(Command::Kill).await.unwrap();
    wait_for("the shutdown hooks", async || hooks.count("Shutdown") > 0).await;
    drop(launcher.lost_logs);
    let run = tokio::time::timeout(TIMEOUT, run).await.unwrap().unwrap();
    let failure = run.unwrap_err().to_string();
    assert!(failure.contains("lost logs"), "{failure}");
    assert_eq!(hooks.count("Shutdown"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_run_if_a_task_fails_while_the_vm_runs() {
    let hooks = Arc::new(ScriptedHooks::default());
    let launcher = TestLauncher::with_hooks(hooks.clone()).await;
    launcher.sync_vm().await.unwrap();
    drop(launcher.lost_logs);
    let (_signal, receiver) = watch::channel(false);
    let config = config(&launcher.paths);
    let run = run_composed(launcher.running, &config, receiver);
    let run = tokio::time::timeout(TIMEOUT, run).await.unwrap();
    let failure = run.unwrap_err().to_string();
    assert!(failure.contains("lost logs"), "{failure}");
    assert_eq!(hooks.count("Shutdown"), 1);
}
