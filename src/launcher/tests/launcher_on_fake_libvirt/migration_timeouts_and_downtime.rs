//! Migrations that reach their completion timeout, and the maximum downtime that is set.

use std::sync::Arc;
use std::time::Duration;

use libvirt::DomainState;
use libvirt::fake::{Call, MigrationPlan};
use serde_json::json;

use crate::support::migration_commands::{
    TEN_MINUTE_MIGRATION, migrate, migrate_with, migration_notifications,
};
use crate::support::scripted_hooks::ScriptedHooks;
use crate::support::test_launcher::{
    DOMAIN, TestLauncher, domain_state, launcher_with_running_vm, wait_for,
};

/// How long libvirt takes to pause the guest.
const SLOW_PAUSE: Duration = Duration::from_millis(700);

#[tokio::test(flavor = "multi_thread")]
async fn completion_by_force_pauses_the_guest_or_continues_it_on_the_target() {
    for (post_copy, mode, call) in [
        (false, "Paused", Call::Suspend),
        (true, "PostCopy", Call::StartPostCopy),
    ] {
        let launcher = launcher_with_running_vm().await;
        launcher.fake.set_migration(MigrationPlan {
            transfer: Duration::from_millis(100),
            never_converges: true,
            ..TEN_MINUTE_MIGRATION
        });
        let options = json!({"CompletionTimeoutPerGiB": 1, "AllowWorkloadDisruption": true, "AllowPostCopy": post_copy});
        assert!(migrate_with(&launcher, "m1", options).await.success);
        let notifications = launcher.notifications_until("ended").await;
        let last = migration_notifications(&notifications).pop().unwrap();
        assert_eq!(last, format!("Shutoff/Migrated migration=m1 {mode} ended"));
        assert_eq!(launcher.fake.count(call), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn late_migration_is_aborted_and_a_paused_guest_resumed() {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(MigrationPlan {
        stuck: true,
        ..TEN_MINUTE_MIGRATION
    });
    let options = json!({"CompletionTimeoutPerGiB": 1, "AllowWorkloadDisruption": true});
    assert!(migrate_with(&launcher, "m1", options).await.success);
    let notifications = launcher.notifications_until("failed").await;
    let shortened = migration_notifications(&notifications);
    let expected = "migration=m1 Paused Succeeded ended failed: Live migration has been aborted";
    assert!(
        shortened.last().unwrap().ends_with(expected),
        "{shortened:#?}"
    );
    assert!(
        shortened
            .iter()
            .any(|line| line.starts_with("Paused/Migration")),
        "{shortened:#?}"
    );
    assert_eq!(
        launcher.fake.state(DOMAIN).unwrap().state,
        DomainState::Running
    );
}

/// libvirt carries the request out when its job of the migration has ended.
#[tokio::test(flavor = "multi_thread")]
async fn late_pause_of_the_guest_does_not_outlive_a_failed_migration() {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(MigrationPlan {
        stuck: true,
        ..TEN_MINUTE_MIGRATION
    });
    launcher.fake.delay(Call::Suspend, SLOW_PAUSE);
    let options = json!({"CompletionTimeoutPerGiB": 1, "AllowWorkloadDisruption": true});
    assert!(migrate_with(&launcher, "m1", options).await.success);
    wait_for("the request to pause", async || {
        launcher.fake.count(Call::Suspend) == 1
    })
    .await;
    let domain = launcher.fake.connect().unwrap().lookup(DOMAIN).unwrap();
    domain.unwrap().abort_job().unwrap();
    launcher.notifications_until("failed").await;
    wait_for("the guest to be resumed", async || {
        launcher.fake.count(Call::Resume) == 1
    })
    .await;
    // Neither does a pause that comes after it.
    tokio::time::sleep(SLOW_PAUSE + Duration::from_millis(100)).await;
    assert_eq!(domain_state(&launcher), Some(DomainState::Running));
    assert_eq!(launcher.fake.count(Call::Resume), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn stall_detector_limits_the_downtime() {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(1000),
        ..TEN_MINUTE_MIGRATION
    });
    let options = json!({"MaxDowntimeMs": 900, "StallDetectorOptions": {"StallMargin": 0.04,
        "StallProgressTimeout": 40, "SwitchoverTimeout": 60, "EwmaAlpha": 0.4}});
    assert!(migrate_with(&launcher, "m1", options).await.success);
    launcher.notifications_until("ended").await;
    assert_eq!(launcher.fake.max_downtimes(), [300]);
}

/// What virt-handler of KubeVirt v1.10 sends.
#[tokio::test(flavor = "multi_thread")]
async fn stall_detector_of_quantities_and_percentages_limits_the_downtime() {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(1000),
        ..TEN_MINUTE_MIGRATION
    });
    let options = json!({"MaxDowntimeMs": 900, "StallDetectorOptions": {"StallMargin": 4,
        "StallProgressTimeout": 40, "SwitchoverTimeout": 60, "EwmaAlpha": "400m"}});
    assert!(migrate_with(&launcher, "m1", options).await.success);
    launcher.notifications_until("ended").await;
    assert_eq!(launcher.fake.max_downtimes(), [300]);
}

#[tokio::test(flavor = "multi_thread")]
async fn downtime_is_raised_in_the_steps_of_the_clusters_tuning() {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(3000),
        ..TEN_MINUTE_MIGRATION
    });
    let tuning =
        json!({"initialMs": 100, "steps": 2, "startAfterIteration": 1, "cooldownSeconds": 1});
    let options = json!({"MaxDowntimeMs": 900, "DowntimeTuning": tuning});
    assert!(migrate_with(&launcher, "m1", options).await.success);
    launcher.notifications_until("ended").await;
    let downtimes = launcher.fake.max_downtimes();
    assert!(downtimes.starts_with(&[100, 500]), "{downtimes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn downtime_of_a_hook_is_set_without_a_stall_detector() {
    let hooks = ScriptedHooks {
        max_downtime: Some(50),
        ..ScriptedHooks::default()
    };
    let launcher = TestLauncher::with_hooks(Arc::new(hooks)).await;
    launcher.sync_vm().await.unwrap();
    launcher.notifications_until("Running").await;
    launcher.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(1500),
        ..TEN_MINUTE_MIGRATION
    });
    assert!(migrate(&launcher, "m1").await.success);
    launcher
        .notifications_until("migration=m1 PreCopy ended")
        .await;
    assert_eq!(launcher.fake.max_downtimes(), [50]);
}
