//! Migrations that are cancelled, late, paused by force, or without progress.

use std::sync::Arc;
use std::time::Duration;

use libvirt::fake::{Call, FakeDaemon, MigrationPlan};
use libvirt::{CloseReason, DomainState};
use serde_json::json;
use virt_launcher::manager::Command;

use crate::migration_requests::{
    NEVER_ENDING, cancel, migrate, migrate_with, records, running, until_migrating,
};
use crate::migration_target::INCOMING;
use crate::scripted_agent::eventually;
use crate::scripted_hooks::ScriptedHooks;
use crate::test_launcher::{DOMAIN, TestLauncher, sync};

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_migration_is_reported_after_it_stopped() {
    let launcher = running().await;
    launcher.fake.set_migration(MigrationPlan {
        prepare: Duration::from_millis(400),
        ..NEVER_ENDING
    });
    assert!(migrate(&launcher, "m1").await.success);
    until_migrating(&launcher).await;
    launcher.notifications_until("migration=m1 PreCopy").await;
    // During the preparation of the target, which libvirt does not interrupt.
    cancel(&launcher).await;
    cancel(&launcher).await;
    let notifications = launcher.notifications_until("failed").await;
    let expected = [
        "Running/Unknown migration=m1 PreCopy",
        "Running/Unknown migration=m1 PreCopy Aborting",
        "Running/Unknown migration=m1 PreCopy Succeeded ended failed: Live migration has been aborted",
    ];
    assert_eq!(records(&notifications), expected);
    assert_eq!(launcher.fake.count(Call::AbortJob), 1);
    cancel(&launcher).await;
    assert_eq!(
        launcher.fake.count(Call::AbortJob),
        1,
        "an ended migration is not cancelled"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn abort_that_libvirt_refuses_is_recorded_and_success_wins() {
    let launcher = running().await;
    launcher.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(1500),
        ..NEVER_ENDING
    });
    let refusal = "internal error: the migration is past the point of no return";
    launcher
        .fake
        .fail_next(Call::AbortJob, FakeDaemon::error(1, 10, refusal));
    assert!(migrate(&launcher, "m1").await.success);
    until_migrating(&launcher).await;
    cancel(&launcher).await;
    launcher
        .notifications_until("migration=m1 PreCopy Failed")
        .await;
    let notifications = launcher.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    assert_eq!(last, "Shutoff/Migrated migration=m1 PreCopy ended");
}

/// The launcher restores the VM between libvirt's error and the end of the record.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_after_a_failure_does_not_hide_its_reason() {
    let launcher = running().await;
    let text = "internal error: process exited while connecting to monitor";
    launcher
        .fake
        .fail_next(Call::Migrate, FakeDaemon::error(1, 10, text));
    launcher.fake.delay(Call::State, Duration::from_secs(1));
    assert!(migrate(&launcher, "m1").await.success);
    eventually("the migration", async || {
        launcher.fake.count(Call::Migrate) == 1
    })
    .await;
    let states = launcher.fake.count(Call::State);
    eventually(
        "the question about the state after the failure",
        async || launcher.fake.count(Call::State) > states,
    )
    .await;
    cancel(&launcher).await;
    let notifications = launcher.notifications_until("ended").await;
    let expected = format!(
        "Running/Unknown migration=m1 PreCopy ended failed: virError(Code=1, Domain=10, Message='{text}')"
    );
    assert_eq!(records(&notifications).last().unwrap(), &expected);
}

/// A migration under way, whose abort has no effect, and the target's domain that waits for its guest.
async fn migrating_whose_abort_hangs() -> TestLauncher {
    let launcher = running().await;
    launcher.fake.set_migration(MigrationPlan {
        abort_hangs: true,
        ..NEVER_ENDING
    });
    launcher.target.begin_incoming(INCOMING).unwrap();
    assert!(migrate(&launcher, "m1").await.success);
    until_migrating(&launcher).await;
    launcher
}

/// QEMU deadlocks: libvirt accepts the abort, and its call does not return while the target waits for the guest.
#[tokio::test(flavor = "multi_thread")]
async fn abort_that_hangs_ends_the_domain_that_waits_on_the_target() {
    let launcher = migrating_whose_abort_hangs().await;
    cancel(&launcher).await;
    // An abort that goes on for less is none that hangs.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(launcher.target.count(Call::Destroy), 0);
    eventually("the target's domain is ended", async || {
        launcher.target.count(Call::Destroy) == 1
    })
    .await;
    assert_eq!(launcher.fake.count(Call::Destroy), 0);
    launcher.fake.finish_hung_abort(DOMAIN);
    let notifications = launcher.notifications_until("failed").await;
    let last = records(&notifications).pop().unwrap();
    assert!(
        last.ends_with(
            "migration=m1 PreCopy Succeeded ended failed: Live migration has been aborted"
        ),
        "{last}"
    );
    assert_eq!(
        launcher.fake.state(DOMAIN).unwrap().state,
        DomainState::Running
    );
}

/// Nobody knows whether the target runs the guest: nothing is ended, and virt-handler may ask again.
#[tokio::test(flavor = "multi_thread")]
async fn abort_that_hangs_at_switchover_is_reported_as_failed_and_can_be_repeated() {
    let launcher = migrating_whose_abort_hangs().await;
    launcher.fake.pause_for_switchover(DOMAIN);
    cancel(&launcher).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    launcher
        .notifications_until("migration=m1 PreCopy Failed")
        .await;
    assert_eq!(launcher.target.count(Call::Destroy), 0);
    assert_eq!(launcher.fake.count(Call::AbortJob), 1);
    cancel(&launcher).await;
    eventually("libvirt is asked again", async || {
        launcher.fake.count(Call::AbortJob) == 2
    })
    .await;
    launcher.fake.finish_hung_abort(DOMAIN);
    let notifications = launcher.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    assert!(last.contains("Succeeded ended failed"), "{last}");
}

/// libvirt does not answer the abort either.
#[tokio::test(flavor = "multi_thread")]
async fn abort_without_an_answer_is_watched_as_one_that_hangs() {
    let launcher = migrating_whose_abort_hangs().await;
    launcher.fake.delay(Call::AbortJob, Duration::from_secs(35));
    cancel(&launcher).await;
    tokio::time::sleep(Duration::from_secs(25)).await;
    launcher
        .notifications_until("migration=m1 PreCopy Failed")
        .await;
    tokio::time::sleep(Duration::from_secs(7)).await;
    eventually("the target's domain is ended", async || {
        launcher.target.count(Call::Destroy) == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn completion_by_force_pauses_the_guest_or_continues_it_on_the_target() {
    for (post_copy, mode, call) in [
        (false, "Paused", Call::Suspend),
        (true, "PostCopy", Call::StartPostCopy),
    ] {
        let launcher = running().await;
        launcher.fake.set_migration(MigrationPlan {
            transfer: Duration::from_millis(100),
            never_converges: true,
            ..NEVER_ENDING
        });
        let options = json!({"CompletionTimeoutPerGiB": 1, "AllowWorkloadDisruption": true, "AllowPostCopy": post_copy});
        assert!(migrate_with(&launcher, "m1", options).await.success);
        let notifications = launcher.notifications_until("ended").await;
        let last = records(&notifications).pop().unwrap();
        assert_eq!(last, format!("Shutoff/Migrated migration=m1 {mode} ended"));
        assert_eq!(launcher.fake.count(call), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn late_migration_is_aborted_and_a_paused_guest_resumed() {
    let launcher = running().await;
    launcher.fake.set_migration(MigrationPlan {
        stuck: true,
        ..NEVER_ENDING
    });
    let options = json!({"CompletionTimeoutPerGiB": 1, "AllowWorkloadDisruption": true});
    assert!(migrate_with(&launcher, "m1", options).await.success);
    let notifications = launcher.notifications_until("failed").await;
    let records = records(&notifications);
    let expected = "migration=m1 Paused Succeeded ended failed: Live migration has been aborted";
    assert!(records.last().unwrap().ends_with(expected), "{records:#?}");
    assert!(
        records
            .iter()
            .any(|line| line.starts_with("Paused/Migration")),
        "{records:#?}"
    );
    assert_eq!(
        launcher.fake.state(DOMAIN).unwrap().state,
        DomainState::Running
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn stall_detector_limits_the_downtime() {
    let launcher = running().await;
    launcher.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(1000),
        ..NEVER_ENDING
    });
    let options = json!({"MaxDowntimeMs": 900, "StallDetectorOptions": {"StallMargin": 0.04,
        "StallProgressTimeout": 40, "SwitchoverTimeout": 60, "EwmaAlpha": 0.4}});
    assert!(migrate_with(&launcher, "m1", options).await.success);
    launcher.notifications_until("ended").await;
    assert_eq!(launcher.fake.max_downtimes(), [300]);
}

#[tokio::test(flavor = "multi_thread")]
async fn downtime_of_a_hook_is_set_without_a_stall_detector() {
    let hooks = ScriptedHooks {
        max_downtime: Some(50),
        ..ScriptedHooks::default()
    };
    let launcher = TestLauncher::with(Arc::new(hooks)).await;
    launcher.manager.run(Command::sync(sync())).await.unwrap();
    launcher.notifications_until("Running").await;
    launcher.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(1500),
        ..NEVER_ENDING
    });
    assert!(migrate(&launcher, "m1").await.success);
    launcher
        .notifications_until("migration=m1 PreCopy ended")
        .await;
    assert_eq!(launcher.fake.max_downtimes(), [50]);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_the_migration_first() {
    let launcher = running().await;
    launcher.fake.set_migration(NEVER_ENDING);
    assert!(migrate(&launcher, "m1").await.success);
    until_migrating(&launcher).await;
    launcher.manager.run(Command::Shutdown).await.unwrap();
    let notifications = launcher.notifications_until("Shutoff/Shutdown").await;
    let ended =
        "migration=m1 PreCopy ended failed: aborted, since the virtual machine is being shut down";
    assert!(
        notifications.iter().any(|line| line.contains(ended)),
        "{notifications:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_guest_stays_paused() {
    let launcher = running().await;
    launcher.manager.run(Command::Pause).await.unwrap();
    launcher.notifications_until("Paused/User").await;
    let failure = FakeDaemon::error(9, 10, "operation failed: no");
    launcher.fake.fail_next(Call::Migrate, failure);
    assert!(migrate(&launcher, "m1").await.success);
    launcher
        .notifications_until("migration=m1 PreCopy ended failed")
        .await;
    assert_eq!(
        launcher.fake.state(DOMAIN).unwrap().state,
        DomainState::Paused
    );
    assert_eq!(
        launcher.fake.migrations()[0].request.flags.bits(),
        1 + 2 + 8 + 32
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_fails_and_cleans_up_when_the_daemon_is_killed() {
    let launcher = running().await;
    launcher.fake.set_migration(NEVER_ENDING);
    assert!(migrate(&launcher, "m1").await.success);
    until_migrating(&launcher).await;
    launcher.fake.stop_daemon(CloseReason::Eof);
    launcher.fake.start_daemon();
    let notifications = launcher.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    assert!(last.contains("client socket is closed"), "{last}");
    launcher.fake.set_migration(MigrationPlan::default());
    assert!(migrate(&launcher, "m2").await.success);
    launcher
        .notifications_until("migration=m2 PreCopy ended")
        .await;
}
