//! A migration during which the daemon or QEMU ends: whether the guest runs here, on the target, or nowhere.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use libvirt::fake::{Call, FakeDaemon, MigrationPlan};
use libvirt::{
    CloseReason, Detail, DomainState, Event, LifecycleEvent, Reason, StartOptions, State, code,
    origin,
};
use serde_json::json;
use virt_launcher::manager::Command;

use crate::support::command_client::{client, vmi_request};
use crate::support::migration_commands::{
    TEN_MINUTE_MIGRATION, cancel_migration, migrate, migrate_with, migration_notifications,
    wait_until_migrating,
};
use crate::support::test_launcher::{DOMAIN, TestLauncher, launcher_with_running_vm, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn guest_that_the_target_may_run_is_never_resumed() {
    let launcher = launcher_with_running_vm().await;
    fs::create_dir_all(launcher.paths.migrated_marker().parent().unwrap()).unwrap();
    launcher.fake.set_migration(MigrationPlan {
        handed_over: true,
        ..TEN_MINUTE_MIGRATION
    });
    assert!(migrate(&launcher, "m1").await.success);
    wait_until_migrating(&launcher).await;
    launcher.fake.stop_daemon(CloseReason::Eof);
    // Longer than a daemon usually takes to restart.
    tokio::time::sleep(Duration::from_secs(11)).await;
    launcher.fake.start_daemon();
    wait_until_paused(&launcher).await;
    // The target does not know the guest yet.
    for _ in 0..5 {
        launcher.sync_vm().await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(launcher.fake.count(Call::Resume), 0);
    assert_eq!(launcher.fake.count(Call::Destroy), 0);
    let marker = launcher.paths.migrated_marker();
    assert!(!marker.exists(), "the guest may still run here");
    run_on_target(&launcher);
    let notifications = launcher.notifications_until("ended").await;
    let last = migration_notifications(&notifications).pop().unwrap();
    assert_eq!(last, "Shutoff/Migrated migration=m1 PreCopy ended");
    let mode = fs::metadata(&marker).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o644, "libvirt's hook gets another end");
    assert_eq!(launcher.fake.count(Call::Resume), 0);
    launcher.sync_vm().await.unwrap();
    assert_eq!(
        launcher.fake.state(DOMAIN).unwrap().state,
        DomainState::Shutoff
    );
}

/// Waits until the guest is paused for the migration.
async fn wait_until_paused(launcher: &TestLauncher) {
    wait_for("the guest to be paused", async || {
        launcher.fake.state(DOMAIN).unwrap() == State::new(DomainState::Paused, Reason::Migration)
    })
    .await;
}

/// Makes the guest run on the target.
fn run_on_target(launcher: &TestLauncher) {
    let target = launcher.target_fake.connect().unwrap();
    let xml = format!("<domain type='kvm'><name>{DOMAIN}</name></domain>");
    let domain = target.define(&xml).unwrap();
    domain.start(StartOptions::RUNNING).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_that_may_run_on_the_target_is_ended_only_with_its_launcher() {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(MigrationPlan {
        handed_over: true,
        ..TEN_MINUTE_MIGRATION
    });
    assert!(migrate(&launcher, "m1").await.success);
    wait_until_migrating(&launcher).await;
    launcher.fake.stop_daemon(CloseReason::Eof);
    launcher.fake.start_daemon();
    wait_until_paused(&launcher).await;
    cancel_migration(&launcher).await;
    launcher
        .notifications_until("migration=m1 PreCopy Failed")
        .await;
    let state = launcher.fake.state(DOMAIN).unwrap();
    assert_eq!(state, State::new(DomainState::Paused, Reason::Migration));
    let mut client = client(&launcher).await;
    let killed = client.kill_virtual_machine(vmi_request()).await.unwrap();
    assert!(killed.into_inner().success);
    let notifications = launcher.notifications_until("ended").await;
    let last = migration_notifications(&notifications).pop().unwrap();
    let expected = "ended failed: aborted, since the virtual machine is being ended; the guest is not resumed here";
    assert!(last.contains(expected), "{last}");
    assert_eq!(launcher.fake.count(Call::Resume), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn abort_before_the_daemons_end_is_reported_as_failed_if_the_guest_may_be_elsewhere() {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(MigrationPlan {
        handed_over: true,
        abort_hangs: true,
        ..TEN_MINUTE_MIGRATION
    });
    assert!(migrate(&launcher, "m1").await.success);
    wait_until_migrating(&launcher).await;
    cancel_migration(&launcher).await;
    launcher.notifications_until("Aborting").await;
    launcher.fake.stop_daemon(CloseReason::Eof);
    launcher.fake.start_daemon();
    launcher
        .notifications_until("migration=m1 PreCopy Failed")
        .await;
    launcher.manager.run(Command::Kill).await.unwrap();
    let notifications = launcher.notifications_until("ended").await;
    let last = migration_notifications(&notifications).pop().unwrap();
    assert!(
        last.contains("Failed ended failed: ") && last.contains("the guest is not resumed here"),
        "{last}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_whose_post_copy_failed_never_runs_here_again() {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(MigrationPlan {
        never_converges: true,
        ..TEN_MINUTE_MIGRATION
    });
    let options = json!({"CompletionTimeoutPerGiB": 1, "AllowWorkloadDisruption": true, "AllowPostCopy": true});
    assert!(migrate_with(&launcher, "m1", options).await.success);
    launcher.notifications_until("Paused/Postcopy").await;
    let error = "internal error: client socket is closed";
    launcher.fake.fail_migration(
        DOMAIN,
        FakeDaemon::error(code::INTERNAL_ERROR, origin::RPC, error),
    );
    let notifications = launcher.notifications_until("ended failed").await;
    let last = migration_notifications(&notifications).pop().unwrap();
    assert!(last.contains("the guest is not resumed here"), "{last}");
    launcher.sync_vm().await.unwrap();
    assert!(launcher.manager.run(Command::Unpause).await.is_err());
    assert!(!migrate(&launcher, "m2").await.success);
    assert_eq!(launcher.fake.count(Call::Resume), 0);
    let state = launcher.fake.state(DOMAIN).unwrap();
    assert_eq!(
        state,
        State::new(DomainState::Paused, Reason::PostcopyFailed)
    );
}

/// A VM whose migration makes no progress, so that the launcher has paused its guest. libvirt's event of that is the
/// same as that of the switchover.
async fn launcher_with_suspended_guest(recovery: Duration) -> TestLauncher {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(MigrationPlan {
        stuck: true,
        recovery,
        ..TEN_MINUTE_MIGRATION
    });
    let options = json!({"CompletionTimeoutPerGiB": 1, "AllowWorkloadDisruption": true});
    assert!(migrate_with(&launcher, "m1", options).await.success);
    launcher.notifications_until("Paused/Migration").await;
    wait_until_paused(&launcher).await;
    launcher
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_that_the_next_daemon_is_about_to_resume_is_not_ended() {
    let launcher = launcher_with_suspended_guest(Duration::from_secs(1)).await;
    launcher.fake.stop_daemon(CloseReason::Eof);
    launcher.fake.start_daemon();
    let notifications = launcher.notifications_until("ended").await;
    let last = migration_notifications(&notifications).pop().unwrap();
    assert!(last.contains("client socket is closed"), "{last}");
    assert_eq!(launcher.fake.count(Call::Destroy), 0);
    assert_eq!(
        launcher.fake.state(DOMAIN).unwrap().state,
        DomainState::Running
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_that_the_launcher_has_suspended_and_that_dies_has_not_migrated() {
    let launcher = launcher_with_suspended_guest(Duration::from_millis(500)).await;
    launcher.fake.stop_daemon(CloseReason::Eof);
    launcher.fake.kill_qemu(DOMAIN);
    launcher.fake.start_daemon();
    let notifications = launcher.notifications_until("ended").await;
    let last = migration_notifications(&notifications).pop().unwrap();
    assert!(last.starts_with("Shutoff/Crashed"), "{last}");
    assert!(last.contains("ended failed"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_switchover_the_targets_answer_decides_the_location_of_a_dead_guest() {
    for has_arrived in [false, true] {
        let launcher = launcher_with_running_vm().await;
        launcher.fake.set_migration(MigrationPlan {
            handed_over: true,
            transfer: Duration::from_secs(600),
            ..TEN_MINUTE_MIGRATION
        });
        assert!(migrate(&launcher, "m1").await.success);
        wait_until_migrating(&launcher).await;
        launcher.fake.publish(&Event::Lifecycle {
            domain: DOMAIN.into(),
            event: LifecycleEvent::Suspended,
            detail: Detail::Migrated,
        });
        launcher.fake.stop_daemon(CloseReason::Eof);
        wait_until_paused(&launcher).await;
        launcher.fake.kill_qemu(DOMAIN);
        if has_arrived {
            run_on_target(&launcher);
        }
        launcher.fake.start_daemon();
        let notifications = launcher.notifications_until("ended").await;
        let last = migration_notifications(&notifications).pop().unwrap();
        let (state, failed) = match has_arrived {
            true => ("Shutoff/Migrated", false),
            false => ("Shutoff/Crashed", true),
        };
        assert!(last.starts_with(state), "{last}");
        assert_eq!(last.contains("failed"), failed, "{last}");
        let crashed = notifications
            .iter()
            .any(|line| line.contains("Shutoff/Crashed"));
        assert_eq!(crashed, !has_arrived, "{notifications:#?}");
    }
}
