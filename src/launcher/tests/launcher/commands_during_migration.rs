//! Commands that arrive while the VM migrates: most are refused, sync and kill are not.

use proto::cmd::v1::{EmptyRequest, MemoryDumpRequest};
use serde_json::Value;
use virt_launcher::manager::Command;

use crate::command_client::{client, vmi_request};
use crate::freeze::freeze;
use crate::migration_requests::{NEVER_ENDING, migrate, records, running, until_migrating};
use crate::scripted_agent::eventually;
use crate::test_launcher::sync;

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_libvirt_would_not_carry_out_are_refused_meanwhile() {
    let launcher = running().await;
    launcher.fake.set_migration(NEVER_ENDING);
    assert!(migrate(&launcher, "m1").await.success);
    until_migrating(&launcher).await;
    for command in [Command::Pause, Command::Unpause, Command::Reset] {
        let refused = launcher.manager.run(command).await.unwrap_err();
        assert!(refused.message().contains("is being migrated"), "{refused}");
    }
    let frozen = freeze(&launcher, 0).await;
    assert_eq!(
        (frozen.success, &*frozen.message),
        (
            false,
            "failed to freeze VMI, VMI is currently during migration"
        )
    );
    launcher.manager.run(Command::sync(sync())).await.unwrap();
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
    eventually("the progress of the migration", async || {
        let stats = client.clone().get_domain_stats(EmptyRequest {}).await;
        let stats = stats.unwrap().into_inner().domain_stats;
        let stats: Value = serde_json::from_str(&stats).unwrap();
        stats["MigrateDomainJobInfo"]["DataTotal"] == 256 << 20
    })
    .await;
    let killed = client.kill_virtual_machine(vmi_request()).await.unwrap();
    assert!(killed.into_inner().success);
    let notifications = launcher.notifications_until("ended").await;
    let last = records(&notifications).pop().unwrap();
    let expected =
        "migration=m1 PreCopy ended failed: aborted, since the virtual machine is being ended";
    assert!(last.ends_with(expected), "{last}");
}
