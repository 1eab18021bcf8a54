//! Commands that are waiting or arrive while the launcher exits.

use std::time::Duration;

use libvirt::fake::Call;
use virt_launcher::manager::{Command, CommandSuccess};

use crate::support::test_launcher::{TestLauncher, sync_request};

#[tokio::test(flavor = "multi_thread")]
async fn deletion_of_an_ended_vm_succeeds_while_the_launcher_exits() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    launcher.manager.run(Command::Kill).await.unwrap();
    launcher.notifications_until("Shutoff/Destroyed").await;
    launcher.manager.close().await;
    let deleted = launcher.manager.run(Command::Delete).await.unwrap();
    assert_eq!(deleted, CommandSuccess::Unchanged);
    let error = launcher.manager.run(Command::Pause).await.unwrap_err();
    assert!(error.is_refusal(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn running_vm_is_not_deleted_while_the_launcher_exits() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    launcher.notifications_until("Running").await;
    launcher.manager.close().await;
    let error = launcher.manager.run(Command::Delete).await.unwrap_err();
    assert!(error.is_refusal(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_delete_succeeds_while_the_launcher_exits() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    launcher.manager.run(Command::Kill).await.unwrap();
    launcher.manager.run(Command::Delete).await.unwrap();
    launcher.notifications_until("NonExistent").await;
    launcher.manager.close().await;
    let repeated = launcher.manager.run(Command::Delete).await.unwrap();
    assert_eq!(repeated, CommandSuccess::Unchanged);
    let error = launcher.manager.run(Command::Pause).await.unwrap_err();
    assert_eq!(error.message(), "the launcher is exiting");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_caller_is_answered_when_the_launcher_exits() {
    let launcher = TestLauncher::new().await;
    launcher.fake.delay(Call::Start, Duration::from_millis(200));
    let starting = tokio::spawn({
        let manager = launcher.manager.clone();
        async move { manager.run(Command::sync(sync_request())).await }
    });
    while launcher.fake.count(Call::Start) == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let waiting = tokio::spawn({
        let manager = launcher.manager.clone();
        async move { manager.run(Command::Pause).await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    launcher.manager.close().await;
    assert_eq!(
        waiting.await.unwrap().unwrap_err().message(),
        "the launcher is exiting"
    );
    assert!(
        starting.await.unwrap().is_ok(),
        "a start that can no longer be interrupted completes"
    );
    assert_eq!(
        launcher
            .manager
            .run(Command::Pause)
            .await
            .unwrap_err()
            .message(),
        "the launcher is exiting"
    );
}
