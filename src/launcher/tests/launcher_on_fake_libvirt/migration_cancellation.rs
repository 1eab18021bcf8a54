//! Migrations that are cancelled by virt-handler or by a shutdown, and aborts that hang.

use std::time::Duration;

use libvirt::fake::{Call, FakeDaemon, MigrationPlan};
use libvirt::{DomainState, code, origin};
use virt_launcher::manager::Command;

use crate::support::migration_commands::{
    TEN_MINUTE_MIGRATION, cancel_migration, migrate, migration_notifications, wait_until_migrating,
};
use crate::support::migration_target_requests::INCOMING_DOMAIN;
use crate::support::test_launcher::{DOMAIN, TestLauncher, launcher_with_running_vm, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_migration_is_reported_after_it_stopped() {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(MigrationPlan {
        prepare: Duration::from_millis(400),
        ..TEN_MINUTE_MIGRATION
    });
    assert!(migrate(&launcher, "m1").await.success);
    wait_until_migrating(&launcher).await;
    launcher.notifications_until("migration=m1 PreCopy").await;
    // The cancellations arrive during the preparation of the target, which libvirt does not interrupt.
    cancel_migration(&launcher).await;
    cancel_migration(&launcher).await;
    let notifications = launcher.notifications_until("failed").await;
    let expected = [
        "Running/Unknown migration=m1 PreCopy",
        "Running/Unknown migration=m1 PreCopy Aborting",
        "Running/Unknown migration=m1 PreCopy Succeeded ended failed: Live migration has been aborted",
    ];
    assert_eq!(migration_notifications(&notifications), expected);
    assert_eq!(launcher.fake.count(Call::AbortJob), 1);
    cancel_migration(&launcher).await;
    assert_eq!(
        launcher.fake.count(Call::AbortJob),
        1,
        "an ended migration is not cancelled"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_abort_is_notified_and_the_migration_succeeds() {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(1500),
        ..TEN_MINUTE_MIGRATION
    });
    let refusal = "internal error: the migration is past the point of no return";
    launcher.fake.fail_next(
        Call::AbortJob,
        FakeDaemon::error(code::INTERNAL_ERROR, origin::QEMU, refusal),
    );
    assert!(migrate(&launcher, "m1").await.success);
    wait_until_migrating(&launcher).await;
    cancel_migration(&launcher).await;
    launcher
        .notifications_until("migration=m1 PreCopy Failed")
        .await;
    let notifications = launcher.notifications_until("ended").await;
    let last = migration_notifications(&notifications).pop().unwrap();
    assert_eq!(last, "Shutoff/Migrated migration=m1 PreCopy ended");
}

/// The cancellation arrives after libvirt's error, while the launcher restores the VM and has not published the end.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_after_a_failure_does_not_hide_its_reason() {
    let launcher = launcher_with_running_vm().await;
    let text = "internal error: process exited while connecting to monitor";
    launcher.fake.fail_next(
        Call::Migrate,
        FakeDaemon::error(code::INTERNAL_ERROR, origin::QEMU, text),
    );
    launcher.fake.delay(Call::State, Duration::from_secs(1));
    assert!(migrate(&launcher, "m1").await.success);
    wait_for("the migration", async || {
        launcher.fake.count(Call::Migrate) == 1
    })
    .await;
    let states = launcher.fake.count(Call::State);
    wait_for(
        "the question about the state after the failure",
        async || launcher.fake.count(Call::State) > states,
    )
    .await;
    cancel_migration(&launcher).await;
    let notifications = launcher.notifications_until("ended").await;
    let expected = format!(
        "Running/Unknown migration=m1 PreCopy ended failed: virError(Code=1, Domain=10, Message='{text}')"
    );
    assert_eq!(
        migration_notifications(&notifications).last().unwrap(),
        &expected
    );
}

/// A running migration whose abort hangs, and whose target waits for the guest.
async fn launcher_with_hanging_abort() -> TestLauncher {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(MigrationPlan {
        abort_hangs: true,
        ..TEN_MINUTE_MIGRATION
    });
    launcher
        .target_fake
        .begin_incoming(INCOMING_DOMAIN)
        .unwrap();
    assert!(migrate(&launcher, "m1").await.success);
    wait_until_migrating(&launcher).await;
    launcher
}

/// QEMU deadlocks: libvirt accepts the abort, but the call does not return while the target waits for the guest.
#[tokio::test(flavor = "multi_thread")]
async fn abort_that_hangs_ends_the_domain_that_waits_on_the_target() {
    let launcher = launcher_with_hanging_abort().await;
    cancel_migration(&launcher).await;
    // A shorter abort does not count as hanging.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(launcher.target_fake.count(Call::Destroy), 0);
    wait_for("the target's domain to be ended", async || {
        launcher.target_fake.count(Call::Destroy) == 1
    })
    .await;
    assert_eq!(launcher.fake.count(Call::Destroy), 0);
    launcher.fake.finish_hung_abort(DOMAIN);
    let notifications = launcher.notifications_until("failed").await;
    let last = migration_notifications(&notifications).pop().unwrap();
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

/// It is unknown whether the target runs the guest: neither domain is ended, and virt-handler may cancel again.
#[tokio::test(flavor = "multi_thread")]
async fn abort_that_hangs_at_switchover_is_reported_as_failed_and_can_be_repeated() {
    let launcher = launcher_with_hanging_abort().await;
    launcher.fake.pause_for_switchover(DOMAIN);
    cancel_migration(&launcher).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    launcher
        .notifications_until("migration=m1 PreCopy Failed")
        .await;
    assert_eq!(launcher.target_fake.count(Call::Destroy), 0);
    assert_eq!(launcher.fake.count(Call::AbortJob), 1);
    cancel_migration(&launcher).await;
    wait_for("libvirt to be called again", async || {
        launcher.fake.count(Call::AbortJob) == 2
    })
    .await;
    launcher.fake.finish_hung_abort(DOMAIN);
    let notifications = launcher.notifications_until("ended").await;
    let last = migration_notifications(&notifications).pop().unwrap();
    assert!(last.contains("Succeeded ended failed"), "{last}");
}

/// libvirt does not answer the call that aborts.
#[tokio::test(flavor = "multi_thread")]
async fn abort_without_an_answer_is_treated_as_hanging() {
    let launcher = launcher_with_hanging_abort().await;
    launcher.fake.delay(Call::AbortJob, Duration::from_secs(35));
    cancel_migration(&launcher).await;
    tokio::time::sleep(Duration::from_secs(25)).await;
    launcher
        .notifications_until("migration=m1 PreCopy Failed")
        .await;
    tokio::time::sleep(Duration::from_secs(7)).await;
    wait_for("the target's domain to be ended", async || {
        launcher.target_fake.count(Call::Destroy) == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_the_migration_first() {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(TEN_MINUTE_MIGRATION);
    assert!(migrate(&launcher, "m1").await.success);
    wait_until_migrating(&launcher).await;
    launcher.manager.run(Command::Shutdown).await.unwrap();
    let notifications = launcher.notifications_until("Shutoff/Shutdown").await;
    let ended =
        "migration=m1 PreCopy ended failed: aborted, since the virtual machine is being shut down";
    assert!(
        notifications.iter().any(|line| line.contains(ended)),
        "{notifications:#?}"
    );
}
