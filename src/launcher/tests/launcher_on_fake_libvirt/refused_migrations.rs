//! Requests for a migration that are refused: repeated, invalid, or vetoed by a hook.

use std::sync::Arc;
use std::time::Duration;

use libvirt::fake::{Call, FakeDaemon, MigrationPlan};
use libvirt::{DomainState, code, origin};
use proto::cmd::v1::MigrationRequest;
use serde_json::json;

use crate::support::command_client::{client, vmi_request};
use crate::support::migration_commands::{
    TEN_MINUTE_MIGRATION, cancel_migration, migrate, migrate_request, wait_until_migrating,
};
use crate::support::scripted_hooks::ScriptedHooks;
use crate::support::test_launcher::{
    DOMAIN, TestLauncher, count_containing, launcher_with_running_vm,
};

#[tokio::test(flavor = "multi_thread")]
async fn repeated_request_has_no_effect_and_an_executed_one_is_an_error() {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(TEN_MINUTE_MIGRATION);
    assert!(migrate(&launcher, "m1").await.success);
    wait_until_migrating(&launcher).await;
    assert!(migrate(&launcher, "m1").await.success);
    let second = migrate(&launcher, "m2").await;
    assert!(
        !second.success && second.message.contains("a migration is in progress"),
        "{second:?}"
    );
    let error = "internal error: client socket is closed";
    launcher.fake.fail_migration(
        DOMAIN,
        FakeDaemon::error(code::INTERNAL_ERROR, origin::RPC, error),
    );
    launcher.notifications_until("failed").await;
    assert_eq!(launcher.fake.count(Call::Migrate), 1);
    let repeated = migrate(&launcher, "m1").await;
    let expected = "migration job m1 already executed, finished at ";
    assert!(
        !repeated.success && repeated.message.starts_with(expected),
        "{repeated:?}"
    );
    assert!(
        repeated.message.ends_with(", failed: true, abortStatus: "),
        "{repeated:?}"
    );
    launcher.fake.set_migration(MigrationPlan::default());
    assert!(
        migrate(&launcher, "m2").await.success,
        "another migration may follow a failed one"
    );
    launcher
        .notifications_until("migration=m2 PreCopy ended")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_refused() {
    let launcher = launcher_with_running_vm().await;
    let mut client = client(&launcher).await;
    let mut error_of = async |request: MigrationRequest| {
        let answer = client
            .migrate_virtual_machine(request)
            .await
            .unwrap()
            .into_inner();
        assert!(!answer.success);
        answer.message
    };
    assert!(
        error_of(MigrationRequest::default())
            .await
            .contains("No valid vmi")
    );
    let without_options = MigrationRequest {
        options: Vec::new(),
        ..migrate_request("m1", json!({}))
    };
    assert_eq!(
        error_of(without_options).await,
        "migration options object not present in command server request"
    );
    assert!(
        error_of(migrate_request("m1", json!({"Bandwidth": []})))
            .await
            .contains("Bandwidth")
    );
    let without_migration_state = MigrationRequest {
        vmi: vmi_request().vmi,
        options: b"{}".to_vec(),
    };
    assert!(
        error_of(without_migration_state)
            .await
            .contains("until migrationState is ready")
    );
    assert_eq!(launcher.fake.count(Call::Migrate), 0);
    cancel_migration(&launcher).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn veto_of_a_hook_ends_the_migration_before_libvirt_is_called() {
    let hooks = Arc::new(ScriptedHooks::default());
    let launcher = TestLauncher::with_hooks(hooks.clone()).await;
    launcher.sync_vm().await.unwrap();
    launcher.notifications_until("Running").await;
    *hooks.veto.lock().unwrap() = Some("not at noon".into());
    assert!(migrate(&launcher, "m1").await.success);
    let notifications = launcher.notifications_until("failed").await;
    let last = notifications.last().unwrap();
    assert!(
        last.contains("ended failed: hook policy refuses at PreMigrationSource: not at noon"),
        "{last}"
    );
    assert_eq!(
        count_containing(&notifications, "EVENT HookDenied: hook policy refuses"),
        1,
        "{notifications:#?}"
    );
    assert_eq!(launcher.fake.count(Call::Migrate), 0);
    assert_eq!(hooks.count("PreMigrationSource"), 1);
    assert_eq!(
        launcher.fake.state(DOMAIN).unwrap().state,
        DomainState::Running
    );

    *hooks.veto.lock().unwrap() = None;
    launcher.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(100),
        ..TEN_MINUTE_MIGRATION
    });
    assert!(migrate(&launcher, "m2").await.success);
    launcher
        .notifications_until("migration=m2 PreCopy ended")
        .await;
    assert_eq!(hooks.count("PreMigrationSource"), 2);
}
