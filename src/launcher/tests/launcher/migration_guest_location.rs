//! A migration whose call breaks off: whether the guest runs here, on the target, or nowhere.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use libvirt::fake::{Call, FakeDaemon, MigrationPlan};
use libvirt::{
    CloseReason, Detail, DomainState, Event, LifecycleEvent, Reason, StartOptions, State,
};
use serde_json::json;
use virt_launcher::manager::Command;

use crate::command_client::{client, vmi_request};
use crate::migration_requests::{
    NEVER_ENDING, cancel, migrate, migrate_with, records, running, until_migrating,
};
use crate::scripted_agent::eventually;
use crate::test_launcher::{DOMAIN, TestLauncher, sync};

#[tokio::test(flavor = "multi_thread")]
async fn qemu_of_a_migrated_guest_gets_no_shutdown() {
    for has_left in [false, true] {
        let launcher = running().await;
        if has_left {
            publish_switch(&launcher).await;
        }
        let reads = launcher.fake.count(Call::Xml);
        launcher.fake.begin_end(DOMAIN);
        match has_left {
            false => drop(launcher.notifications_until("ShuttingDown").await),
            // The observer has read the state when it reads the description.
            true => until_read(&launcher, reads).await,
        }
        launcher.fake.kill_qemu(DOMAIN);
        let notifications = launcher.notifications_until("Shutoff/Crashed").await;
        let shuts_down = notifications.iter().any(|one| one.contains("ShuttingDown"));
        assert_eq!(shuts_down, !has_left, "{notifications:#?}");
    }
}

/// libvirt's event of the switch to the target.
async fn publish_switch(launcher: &TestLauncher) {
    let reads = launcher.fake.count(Call::Xml);
    launcher.fake.publish(&Event::Lifecycle {
        domain: DOMAIN.into(),
        event: LifecycleEvent::Suspended,
        detail: Detail::Migrated,
    });
    until_read(launcher, reads).await;
}

/// Waits until the observer reads the domain, which it has read so often.
async fn until_read(launcher: &TestLauncher, reads: usize) {
    eventually("the observer's look", async || {
        launcher.fake.count(Call::Xml) > reads
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_that_the_target_may_run_is_never_resumed() {
    let launcher = running().await;
    fs::create_dir_all(launcher.paths.migrated_marker().parent().unwrap()).unwrap();
    launcher.fake.set_migration(MigrationPlan {
        handed_over: true,
        ..NEVER_ENDING
    });
    assert!(migrate(&launcher, "m1").await.success);
    until_migrating(&launcher).await;
    launcher.fake.stop_daemon(CloseReason::Eof);
    // Longer than a daemon usually needs.
    tokio::time::sleep(Duration::from_secs(11)).await;
    launcher.fake.start_daemon();
    until_paused(&launcher).await;
    // The target does not answer for the guest yet.
    for _ in 0..5 {
        launcher.manager.run(Command::sync(sync())).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(launcher.fake.count(Call::Resume), 0);
    assert_eq!(launcher.fake.count(Call::Destroy), 0);
    let marker = launcher.paths.migrated_marker();
    assert!(!marker.exists(), "the guest may still be here");
    runs_on_target(&launcher);
    let notifications = launcher.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    assert_eq!(last, "Shutoff/Migrated migration=m1 PreCopy ended");
    let mode = fs::metadata(&marker).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o644, "libvirt's hook gets another end");
    assert_eq!(launcher.fake.count(Call::Resume), 0);
    launcher.manager.run(Command::sync(sync())).await.unwrap();
    assert_eq!(
        launcher.fake.state(DOMAIN).unwrap().state,
        DomainState::Shutoff
    );
}

async fn until_paused(launcher: &TestLauncher) {
    eventually("the guest is paused", async || {
        launcher.fake.state(DOMAIN).unwrap() == State::new(DomainState::Paused, Reason::Migration)
    })
    .await;
}

/// The guest runs on the target.
fn runs_on_target(launcher: &TestLauncher) {
    let target = launcher.target.connect().unwrap();
    let xml = format!("<domain type='kvm'><name>{DOMAIN}</name></domain>");
    let domain = target.define(&xml).unwrap();
    domain.start(StartOptions::RUNNING).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_that_may_run_on_the_target_is_ended_only_with_its_launcher() {
    let launcher = running().await;
    launcher.fake.set_migration(MigrationPlan {
        handed_over: true,
        ..NEVER_ENDING
    });
    assert!(migrate(&launcher, "m1").await.success);
    until_migrating(&launcher).await;
    launcher.fake.stop_daemon(CloseReason::Eof);
    launcher.fake.start_daemon();
    until_paused(&launcher).await;
    cancel(&launcher).await;
    launcher
        .notifications_until("migration=m1 PreCopy Failed")
        .await;
    let state = launcher.fake.state(DOMAIN).unwrap();
    assert_eq!(state, State::new(DomainState::Paused, Reason::Migration));
    let mut client = client(&launcher).await;
    let killed = client.kill_virtual_machine(vmi_request()).await.unwrap();
    assert!(killed.into_inner().success);
    let notifications = launcher.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    let expected = "ended failed: aborted, since the virtual machine is being ended; the guest is not resumed here";
    assert!(last.contains(expected), "{last}");
    assert_eq!(launcher.fake.count(Call::Resume), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn abort_before_the_daemons_end_is_reported_as_failed_if_the_guest_may_be_elsewhere() {
    let launcher = running().await;
    launcher.fake.set_migration(MigrationPlan {
        handed_over: true,
        abort_hangs: true,
        ..NEVER_ENDING
    });
    assert!(migrate(&launcher, "m1").await.success);
    until_migrating(&launcher).await;
    cancel(&launcher).await;
    launcher.notifications_until("Aborting").await;
    launcher.fake.stop_daemon(CloseReason::Eof);
    launcher.fake.start_daemon();
    launcher
        .notifications_until("migration=m1 PreCopy Failed")
        .await;
    launcher.manager.run(Command::Kill).await.unwrap();
    let notifications = launcher.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    assert!(
        last.contains("Failed ended failed: ") && last.contains("the guest is not resumed here"),
        "{last}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_whose_post_copy_failed_never_runs_here_again() {
    let launcher = running().await;
    launcher.fake.set_migration(MigrationPlan {
        never_converges: true,
        ..NEVER_ENDING
    });
    let options = json!({"CompletionTimeoutPerGiB": 1, "AllowWorkloadDisruption": true, "AllowPostCopy": true});
    assert!(migrate_with(&launcher, "m1", options).await.success);
    launcher.notifications_until("Paused/Postcopy").await;
    let error = "internal error: client socket is closed";
    launcher
        .fake
        .fail_migration(DOMAIN, FakeDaemon::error(1, 7, error));
    let notifications = launcher.notifications_until("ended failed").await;
    let last = records(&notifications).pop().unwrap();
    assert!(last.contains("the guest is not resumed here"), "{last}");
    launcher.manager.run(Command::sync(sync())).await.unwrap();
    assert!(launcher.manager.run(Command::Unpause).await.is_err());
    assert!(!migrate(&launcher, "m2").await.success);
    assert_eq!(launcher.fake.count(Call::Resume), 0);
    let state = launcher.fake.state(DOMAIN).unwrap();
    assert_eq!(
        state,
        State::new(DomainState::Paused, Reason::PostcopyFailed)
    );
}

/// A VM whose migration makes no progress, so that the launcher has suspended its guest. libvirt's event is that of the
/// switch to the target.
async fn suspended_by_the_launcher(recovery: Duration) -> TestLauncher {
    let launcher = running().await;
    launcher.fake.set_migration(MigrationPlan {
        stuck: true,
        recovery,
        ..NEVER_ENDING
    });
    let options = json!({"CompletionTimeoutPerGiB": 1, "AllowWorkloadDisruption": true});
    assert!(migrate_with(&launcher, "m1", options).await.success);
    launcher.notifications_until("Paused/Migration").await;
    until_paused(&launcher).await;
    launcher
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_that_the_next_daemon_is_about_to_resume_is_not_ended() {
    let launcher = suspended_by_the_launcher(Duration::from_secs(1)).await;
    launcher.fake.stop_daemon(CloseReason::Eof);
    launcher.fake.start_daemon();
    let notifications = launcher.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    assert!(last.contains("client socket is closed"), "{last}");
    assert_eq!(launcher.fake.count(Call::Destroy), 0);
    assert_eq!(
        launcher.fake.state(DOMAIN).unwrap().state,
        DomainState::Running
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_that_the_launcher_has_suspended_and_that_dies_has_not_migrated() {
    let launcher = suspended_by_the_launcher(Duration::from_millis(500)).await;
    launcher.fake.stop_daemon(CloseReason::Eof);
    launcher.fake.kill_qemu(DOMAIN);
    launcher.fake.start_daemon();
    let notifications = launcher.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    assert!(last.starts_with("Shutoff/Crashed"), "{last}");
    assert!(last.contains("ended failed"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_switchover_the_targets_answer_decides_the_location_of_a_dead_guest() {
    for has_arrived in [false, true] {
        let launcher = running().await;
        launcher.fake.set_migration(MigrationPlan {
            handed_over: true,
            transfer: Duration::from_secs(600),
            ..NEVER_ENDING
        });
        assert!(migrate(&launcher, "m1").await.success);
        until_migrating(&launcher).await;
        launcher.fake.publish(&Event::Lifecycle {
            domain: DOMAIN.into(),
            event: LifecycleEvent::Suspended,
            detail: Detail::Migrated,
        });
        launcher.fake.stop_daemon(CloseReason::Eof);
        until_paused(&launcher).await;
        launcher.fake.kill_qemu(DOMAIN);
        if has_arrived {
            runs_on_target(&launcher);
        }
        launcher.fake.start_daemon();
        let notifications = launcher.notifications_until("ended").await;
        let last = records(&notifications).pop().unwrap();
        let (state, failed) = match has_arrived {
            true => ("Shutoff/Migrated", false),
            false => ("Shutoff/Crashed", true),
        };
        assert!(last.starts_with(state), "{last}");
        assert_eq!(last.contains("failed"), failed, "{last}");
        let crashed = notifications
            .iter()
            .any(|one| one.contains("Shutoff/Crashed"));
        assert_eq!(crashed, !has_arrived, "{notifications:#?}");
    }
}

/// The event of the guest that runs on is lost with the daemon.
#[tokio::test(flavor = "multi_thread")]
async fn qemu_of_a_returned_guest_gets_the_shutdown() {
    let launcher = running().await;
    publish_switch(&launcher).await;
    let reads = launcher.fake.count(Call::Xml);
    launcher.fake.stop_daemon(CloseReason::Eof);
    launcher.fake.start_daemon();
    until_read(&launcher, reads).await;
    launcher.fake.begin_end(DOMAIN);
    launcher.notifications_until("ShuttingDown").await;
}
