//! Commands to a migration target whose guest has not arrived yet: they are refused.

use libvirt::fake::{Arrival, Call};
use proto::cmd::v1::MemoryDumpRequest;
use virt_launcher::manager::Command;

use crate::support::command_client::{backup, backup_start_options, client, vmi_request};
use crate::support::migration_target_requests::{INCOMING_DOMAIN, prepare_target};
use crate::support::test_launcher::TestLauncher;

/// Sends each command that needs the guest. Returns its name and the message of the response.
async fn send_all_commands(launcher: &TestLauncher) -> Vec<(&'static str, String)> {
    let client = client(launcher).await;
    let mut answers = Vec::new();
    macro_rules! send {
        ($($method:ident($request:expr)),* $(,)?) => {$(
            let answer = client.clone().$method($request).await.unwrap().into_inner();
            answers.push((stringify!($method), match answer.success {
                true => "success".to_owned(),
                false => answer.message,
            }));
        )*};
    }
    send!(
        sync_virtual_machine(vmi_request()),
        pause_virtual_machine(vmi_request()),
        unpause_virtual_machine(vmi_request()),
        reset_virtual_machine(vmi_request()),
        soft_reboot_virtual_machine(vmi_request()),
        unfreeze_virtual_machine(vmi_request()),
        sync_virtual_machine_cp_us(vmi_request()),
        sync_virtual_machine_memory(vmi_request()),
        virtual_machine_memory_dump(MemoryDumpRequest {
            vmi: vmi_request().vmi,
            dump_path: "/d/vm1.memory.dump".into(),
        }),
    );
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_refused_until_the_guest_has_arrived() {
    const NOT_ARRIVED: &str = "the virtual machine has not arrived in this pod yet";
    let launcher = TestLauncher::new().await;
    prepare_target(&launcher, "a").await.unwrap();
    for is_incoming in [false, true] {
        if is_incoming {
            launcher.fake.begin_incoming(INCOMING_DOMAIN).unwrap();
            launcher.notifications_until("ADDED").await;
        }
        for (method, answer) in send_all_commands(&launcher).await {
            let expected = match method {
                "sync_virtual_machine" => "arrive by a migration",
                _ => NOT_ARRIVED,
            };
            assert!(answer.contains(expected), "{method}: {answer}");
        }
        let answer = backup(&launcher, "Enabled", backup_start_options()).await;
        let expected = "failed to do backup, VMI is currently during migration";
        assert_eq!((answer.success, answer.message.as_str()), (false, expected));
        let cancelled = launcher.manager.run(Command::CancelMigration).await;
        assert!(cancelled.is_ok(), "{cancelled:?}");
    }
    for call in [Call::Suspend, Call::Resume, Call::Reset, Call::SetVcpus] {
        assert_eq!(launcher.fake.count(call), 0, "{call:?}");
    }
    launcher
        .fake
        .finish_incoming(INCOMING_DOMAIN, Arrival::Running)
        .unwrap();
    launcher.notifications_until("Running").await;
    launcher.manager.run(Command::Pause).await.unwrap();
}
