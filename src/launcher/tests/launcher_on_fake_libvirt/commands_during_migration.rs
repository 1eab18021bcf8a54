//! Commands that arrive while the VM migrates: most are refused, sync and kill are not.

use proto::cmd::v1::{EmptyRequest, MemoryDumpRequest};
use serde_json::Value;
use virt_launcher::manager::Command;

use crate::support::command_client::{client, freeze, vmi_request};
use crate::support::migration_commands::{
    TEN_MINUTE_MIGRATION, migrate, migration_notifications, wait_until_migrating,
};
use crate::support::test_launcher::{launcher_with_running_vm, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_libvirt_refuses_during_a_migration_are_refused() {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(TEN_MINUTE_MIGRATION);
    assert!(migrate(&launcher, "m1").await.success);
    wait_until_migrating(&launcher).await;
    for command in [Command::Pause, Command::Unpause, Command::Reset] {
        let error = launcher.manager.run(command).await.unwrap_err();
        assert!(error.message().contains("is being migrated"), "{error}");
    }
    let frozen = freeze(&launcher, 0).await;
    assert_eq!(
        (frozen.success, &*frozen.message),
        (
            false,
            "failed to freeze VMI, VMI is currently during migration"
        )
    );
    launcher.sync_vm().await.unwrap();
    let mut client = client(&launcher).await;
    let dump = MemoryDumpRequest {
        vmi: vmi_request().vmi,
        dump_path: "/tmp/x.memory.dump".into(),
    };
    let dump = client
        .virtual_machine_memory_dump(dump)
        .await
        .unwrap()
        .into_inner();
    assert!(
        dump.message.contains("a migration is in progress"),
        "{dump:?}"
    );
    wait_for("the progress of the migration", async || {
        let stats = client.clone().get_domain_stats(EmptyRequest {}).await;
        let stats = stats.unwrap().into_inner().domain_stats;
        let stats: Value = serde_json::from_str(&stats).unwrap();
        stats["MigrateDomainJobInfo"]["DataTotal"] == 256 << 20
    })
    .await;
    let killed = client.kill_virtual_machine(vmi_request()).await.unwrap();
    assert!(killed.into_inner().success);
    let notifications = launcher.notifications_until("ended").await;
    let last = migration_notifications(&notifications).pop().unwrap();
    let expected =
        "migration=m1 PreCopy ended failed: aborted, since the virtual machine is being ended";
    assert!(last.ends_with(expected), "{last}");
}
