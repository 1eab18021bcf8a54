//! Migrations that are cancelled, late, paused by force, or without progress.

use std::sync::Arc;
use std::time::Duration;

use libvirt::fake::{Call, FakeDaemon, MigrationPlan};
use libvirt::{CloseReason, DomainState};
use serde_json::json;
use virt_launcher::manager::Command;

use crate::fake_libvirt_rig::{DOMAIN, Rig, sync};
use crate::migration_source_rig::{
    NEVER_ENDING, cancel, migrate, migrate_with, records, running, until_migrating,
};
use crate::migration_target::INCOMING;
use crate::scripted_agent::eventually;
use crate::scripted_hooks::ScriptedHooks;

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_migration_is_reported_after_it_stopped() {
    let rig = running().await;
    rig.fake.set_migration(MigrationPlan {
        prepare: Duration::from_millis(400),
        ..NEVER_ENDING
    });
    assert!(migrate(&rig, "m1").await.success);
    until_migrating(&rig).await;
    rig.notifications_until("migration=m1 PreCopy").await;
    // During the preparation of the target, which libvirt does not interrupt.
    cancel(&rig).await;
    cancel(&rig).await;
    let notifications = rig.notifications_until("failed").await;
    let expected = [
        "Running/Unknown migration=m1 PreCopy",
        "Running/Unknown migration=m1 PreCopy Aborting",
        "Running/Unknown migration=m1 PreCopy Succeeded ended failed: Live migration has been aborted",
    ];
    assert_eq!(records(&notifications), expected);
    assert_eq!(rig.fake.count(Call::AbortJob), 1);
    cancel(&rig).await;
    assert_eq!(
        rig.fake.count(Call::AbortJob),
        1,
        "an ended migration is not cancelled"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn abort_that_libvirt_refuses_is_recorded_and_success_wins() {
    let rig = running().await;
    rig.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(1500),
        ..NEVER_ENDING
    });
    let refusal = "internal error: the migration is past the point of no return";
    rig.fake
        .fail_next(Call::AbortJob, FakeDaemon::error(1, 10, refusal));
    assert!(migrate(&rig, "m1").await.success);
    until_migrating(&rig).await;
    cancel(&rig).await;
    rig.notifications_until("migration=m1 PreCopy Failed").await;
    let notifications = rig.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    assert_eq!(last, "Shutoff/Migrated migration=m1 PreCopy ended");
}

/// A migration under way, whose abort has no effect, and the target's domain that waits for its guest.
async fn migrating_whose_abort_hangs() -> Rig {
    let rig = running().await;
    rig.fake.set_migration(MigrationPlan {
        abort_hangs: true,
        ..NEVER_ENDING
    });
    rig.target.begin_incoming(INCOMING).unwrap();
    assert!(migrate(&rig, "m1").await.success);
    until_migrating(&rig).await;
    rig
}

/// QEMU deadlocks: libvirt accepts the abort, and its call does not return while the target waits for the guest.
#[tokio::test(flavor = "multi_thread")]
async fn abort_that_hangs_ends_the_domain_that_waits_on_the_target() {
    let rig = migrating_whose_abort_hangs().await;
    cancel(&rig).await;
    // An abort that goes on for less is none that hangs.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(rig.target.count(Call::Destroy), 0);
    eventually("the target's domain is ended", async || {
        rig.target.count(Call::Destroy) == 1
    })
    .await;
    assert_eq!(rig.fake.count(Call::Destroy), 0);
    rig.fake.end_hung_abort(DOMAIN);
    let notifications = rig.notifications_until("failed").await;
    let last = records(&notifications).pop().unwrap();
    assert!(
        last.ends_with(
            "migration=m1 PreCopy Succeeded ended failed: Live migration has been aborted"
        ),
        "{last}"
    );
    assert_eq!(rig.fake.state(DOMAIN).unwrap().state, DomainState::Running);
}

/// Nobody knows whether the target runs the guest: nothing is ended, and virt-handler may ask again.
#[tokio::test(flavor = "multi_thread")]
async fn abort_that_hangs_at_switchover_is_reported_as_failed_and_can_be_repeated() {
    let rig = migrating_whose_abort_hangs().await;
    rig.fake.stop_for_switch(DOMAIN);
    cancel(&rig).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    rig.notifications_until("migration=m1 PreCopy Failed").await;
    assert_eq!(rig.target.count(Call::Destroy), 0);
    assert_eq!(rig.fake.count(Call::AbortJob), 1);
    cancel(&rig).await;
    eventually("libvirt is asked again", async || {
        rig.fake.count(Call::AbortJob) == 2
    })
    .await;
    rig.fake.end_hung_abort(DOMAIN);
    let notifications = rig.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    assert!(last.contains("Succeeded ended failed"), "{last}");
}

/// libvirt does not answer the abort either.
#[tokio::test(flavor = "multi_thread")]
async fn abort_without_an_answer_is_watched_as_one_that_hangs() {
    let rig = migrating_whose_abort_hangs().await;
    rig.fake.delay(Call::AbortJob, Duration::from_secs(35));
    cancel(&rig).await;
    tokio::time::sleep(Duration::from_secs(25)).await;
    rig.notifications_until("migration=m1 PreCopy Failed").await;
    tokio::time::sleep(Duration::from_secs(7)).await;
    eventually("the target's domain is ended", async || {
        rig.target.count(Call::Destroy) == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn completion_by_force_pauses_the_guest_or_continues_it_on_the_target() {
    for (post_copy, mode, call) in [
        (false, "Paused", Call::Suspend),
        (true, "PostCopy", Call::StartPostCopy),
    ] {
        let rig = running().await;
        rig.fake.set_migration(MigrationPlan {
            transfer: Duration::from_millis(100),
            never_converges: true,
            ..NEVER_ENDING
        });
        let options = json!({"CompletionTimeoutPerGiB": 1, "AllowWorkloadDisruption": true, "AllowPostCopy": post_copy});
        assert!(migrate_with(&rig, "m1", options).await.success);
        let notifications = rig.notifications_until("ended").await;
        let last = records(&notifications).pop().unwrap();
        assert_eq!(last, format!("Shutoff/Migrated migration=m1 {mode} ended"));
        assert_eq!(rig.fake.count(call), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn late_migration_is_aborted_and_a_paused_guest_resumed() {
    let rig = running().await;
    rig.fake.set_migration(MigrationPlan {
        stuck: true,
        ..NEVER_ENDING
    });
    let options = json!({"CompletionTimeoutPerGiB": 1, "AllowWorkloadDisruption": true});
    assert!(migrate_with(&rig, "m1", options).await.success);
    let notifications = rig.notifications_until("failed").await;
    let records = records(&notifications);
    let expected = "migration=m1 Paused Succeeded ended failed: Live migration has been aborted";
    assert!(records.last().unwrap().ends_with(expected), "{records:#?}");
    assert!(
        records
            .iter()
            .any(|line| line.starts_with("Paused/Migration")),
        "{records:#?}"
    );
    assert_eq!(rig.fake.state(DOMAIN).unwrap().state, DomainState::Running);
}

#[tokio::test(flavor = "multi_thread")]
async fn stall_detector_limits_the_downtime() {
    let rig = running().await;
    rig.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(1000),
        ..NEVER_ENDING
    });
    let options = json!({"MaxDowntimeMs": 900, "StallDetectorOptions": {"StallMargin": 0.04,
        "StallProgressTimeout": 40, "SwitchoverTimeout": 60, "EwmaAlpha": 0.4}});
    assert!(migrate_with(&rig, "m1", options).await.success);
    rig.notifications_until("ended").await;
    assert_eq!(rig.fake.max_downtimes(), [300]);
}

#[tokio::test(flavor = "multi_thread")]
async fn downtime_of_a_hook_is_set_without_a_stall_detector() {
    let hooks = ScriptedHooks {
        max_downtime: Some(50),
        ..ScriptedHooks::default()
    };
    let rig = Rig::with(Arc::new(hooks)).await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.notifications_until("Running").await;
    rig.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(1500),
        ..NEVER_ENDING
    });
    assert!(migrate(&rig, "m1").await.success);
    rig.notifications_until("migration=m1 PreCopy ended").await;
    assert_eq!(rig.fake.max_downtimes(), [50]);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_the_migration_first() {
    let rig = running().await;
    rig.fake.set_migration(NEVER_ENDING);
    assert!(migrate(&rig, "m1").await.success);
    until_migrating(&rig).await;
    rig.manager.run(Command::Shutdown).await.unwrap();
    let notifications = rig.notifications_until("Shutoff/Shutdown").await;
    let ended =
        "migration=m1 PreCopy ended failed: aborted, since the virtual machine is being shut down";
    assert!(
        notifications.iter().any(|line| line.contains(ended)),
        "{notifications:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_guest_stays_paused() {
    let rig = running().await;
    rig.manager.run(Command::Pause).await.unwrap();
    rig.notifications_until("Paused/User").await;
    let failure = FakeDaemon::error(9, 10, "operation failed: no");
    rig.fake.fail_next(Call::Migrate, failure);
    assert!(migrate(&rig, "m1").await.success);
    rig.notifications_until("migration=m1 PreCopy ended failed")
        .await;
    assert_eq!(rig.fake.state(DOMAIN).unwrap().state, DomainState::Paused);
    assert_eq!(
        rig.fake.migrations()[0].request.flags.bits(),
        1 + 2 + 8 + 32
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_whose_daemon_is_killed_fails_and_leaves_nothing_behind() {
    let rig = running().await;
    rig.fake.set_migration(NEVER_ENDING);
    assert!(migrate(&rig, "m1").await.success);
    until_migrating(&rig).await;
    rig.fake.stop_daemon(CloseReason::Eof);
    rig.fake.start_daemon();
    let notifications = rig.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    assert!(last.contains("client socket is closed"), "{last}");
    rig.fake.set_migration(MigrationPlan::default());
    assert!(migrate(&rig, "m2").await.success);
    rig.notifications_until("migration=m2 PreCopy ended").await;
}
