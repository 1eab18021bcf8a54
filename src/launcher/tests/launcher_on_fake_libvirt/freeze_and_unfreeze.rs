//! FreezeVirtualMachine and UnfreezeVirtualMachine.

use std::time::Duration;

use libvirt::fake::{Call, FakeDaemon};
use libvirt::{code, origin};
use proto::cmd::v1::FreezeRequest;
use serde_json::{Value, json};
use virt_launcher::manager::Command;

use crate::support::command_client::{client, freeze, guest_info, unfreeze, vmi_message};
use crate::support::migration_commands::migrate;
use crate::support::scripted_guest_agent::launcher_with_recorded_agent;
use crate::support::test_launcher::{DOMAIN, TestLauncher, vmi, vmi_json, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn freeze_and_unfreeze_are_idempotent_and_notified() {
    let (launcher, agent) = launcher_with_recorded_agent().await;
    for _ in 0..2 {
        let answer = freeze(&launcher, 300).await;
        assert!(answer.success && answer.message.is_empty(), "{answer:?}");
    }
    assert_eq!(agent.count("guest-fsfreeze-freeze"), 1);
    launcher.notifications_until("freeze=frozen").await;
    assert_eq!(guest_info(&launcher).await["fsFreezeStatus"], "frozen");
    for _ in 0..2 {
        assert!(unfreeze(&launcher).await.success);
    }
    assert_eq!(agent.count("guest-fsfreeze-thaw"), 1, "thaw hooks run once");
    let notifications = launcher.notifications_until("freeze=thawed").await;
    assert!(
        notifications.last().unwrap().contains("freeze=thawed"),
        "{notifications:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_guest_is_not_migrated() {
    let (launcher, agent) = launcher_with_recorded_agent().await;
    assert!(freeze(&launcher, 300).await.success);
    let answer = migrate(&launcher, "m1").await;
    assert!(
        answer.message.contains("while its guest is frozen"),
        "{answer:?}"
    );
    assert_eq!(launcher.fake.count(Call::Migrate), 0);
    assert_eq!(agent.count("guest-fsfreeze-thaw"), 0);
    assert!(unfreeze(&launcher).await.success);
    assert!(migrate(&launcher, "m1").await.success);
    launcher
        .notifications_until("migration=m1 PreCopy ended")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_guest_is_thawed_before_it_is_asked_to_power_off_or_reboot() {
    for (command, call) in [
        (Command::Shutdown, Call::Shutdown),
        (Command::SoftReboot(Box::new(vmi())), Call::Reboot),
    ] {
        let (launcher, agent) = launcher_with_recorded_agent().await;
        launcher.fake.obey_shutdown(false);
        assert!(freeze(&launcher, 300).await.success);
        launcher.manager.run(command.clone()).await.unwrap();
        assert_eq!(agent.count("guest-fsfreeze-thaw"), 1, "{command:?}");
        assert_eq!(launcher.fake.count(call), 1);
        launcher.manager.run(command.clone()).await.unwrap();
        assert_eq!(agent.count("guest-fsfreeze-thaw"), 1, "{command:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_that_cannot_be_thawed_is_asked_by_the_power_button() {
    let (launcher, agent) = launcher_with_recorded_agent().await;
    launcher.fake.obey_shutdown(false);
    assert!(freeze(&launcher, 300).await.success);
    let error = FakeDaemon::error(code::AGENT_UNRESPONSIVE, origin::QEMU, "no answer");
    agent.fail("guest-fsfreeze-thaw", Some(error));
    launcher.manager.run(Command::Shutdown).await.unwrap();
    assert_eq!(launcher.fake.count(Call::Shutdown), 1, "only the button");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_unfreeze_is_reported_and_retried() {
    let (launcher, agent) = launcher_with_recorded_agent().await;
    assert!(freeze(&launcher, 0).await.success);
    let error = FakeDaemon::error(
        code::AGENT_COMMAND_FAILED,
        origin::QEMU,
        "guest agent command failed: no",
    );
    agent.fail("guest-fsfreeze-thaw", Some(error));
    let answer = unfreeze(&launcher).await;
    assert!(
        !answer.success && answer.message.contains("Code=113"),
        "{answer:?}"
    );
    agent.fail("guest-fsfreeze-thaw", None);
    wait_for("the thaw", async || {
        guest_info(&launcher).await["fsFreezeStatus"] == "thawed"
    })
    .await;
    assert_eq!(agent.count("guest-fsfreeze-thaw"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_unfreeze_of_a_guest_that_was_never_frozen_is_not_retried() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    let answer = unfreeze(&launcher).await;
    assert!(answer.message.contains("Code=86"), "no agent: {answer:?}");
    let calls = launcher.fake.count(Call::Agent);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(launcher.fake.count(Call::Agent), calls);
}

#[tokio::test(flavor = "multi_thread")]
async fn unfreeze_of_a_guest_without_an_agents_channel_is_not_retried() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    let text = "argument unsupported: QEMU guest agent is not configured";
    for _ in 0..2 {
        let error = FakeDaemon::error(code::ARGUMENT_UNSUPPORTED, origin::QEMU, text);
        launcher.fake.fail_next(Call::Agent, error);
    }
    let answer = unfreeze(&launcher).await;
    assert!(answer.message.contains("Code=74"), "{answer:?}");
    let calls = launcher.fake.count(Call::Agent);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(launcher.fake.count(Call::Agent), calls);
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_is_thawed_after_a_freeze_without_an_answer() {
    // The agent answers the status, but not the freeze: it is too slow, or has ended.
    for error_code in [code::AGENT_COMMAND_TIMEOUT, code::AGENT_UNRESPONSIVE] {
        let (launcher, agent) = launcher_with_recorded_agent().await;
        let no_answer = FakeDaemon::error(error_code, origin::QEMU, "no answer");
        agent.fail("guest-fsfreeze-freeze", Some(no_answer));
        let answer = freeze(&launcher, 300).await;
        assert!(
            !answer.success && answer.message.contains(&format!("Code={error_code}")),
            "{answer:?}"
        );
        agent.answer("guest-fsfreeze-status", json!("frozen"));
        wait_for("the thaw", async || agent.count("guest-fsfreeze-thaw") > 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_unfreeze_of_a_guest_that_froze_itself_is_retried() {
    let (launcher, agent) = launcher_with_recorded_agent().await;
    agent.answer("guest-fsfreeze-status", json!("frozen"));
    // A new connection makes the launcher poll the agent again.
    agent.connect(&launcher);
    launcher.notifications_until("freeze=frozen").await;
    let no_answer = FakeDaemon::error(code::AGENT_UNRESPONSIVE, origin::QEMU, "no answer");
    for command in ["guest-fsfreeze-status", "guest-fsfreeze-thaw"] {
        agent.fail(command, Some(no_answer.clone()));
    }
    assert!(!unfreeze(&launcher).await.success);
    for command in ["guest-fsfreeze-status", "guest-fsfreeze-thaw"] {
        agent.fail(command, None);
    }
    wait_for("the thaw", async || agent.count("guest-fsfreeze-thaw") > 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn freeze_of_a_stopped_guest_is_libvirts_error() {
    let launcher = TestLauncher::new().await;
    let answer = freeze(&launcher, 0).await;
    assert!(
        answer.message.starts_with("LibvirtError(Code=42, "),
        "{answer:?}"
    );
    launcher.sync_vm().await.unwrap();
    let answer = freeze(&launcher, 0).await;
    assert!(
        answer.message.starts_with("LibvirtError(Code=86, "),
        "{answer:?}"
    );
    launcher.fake.power_off(DOMAIN);
    let answer = unfreeze(&launcher).await;
    assert!(
        answer.message.contains("domain is not running"),
        "{answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn persistent_tpm_is_written_to_disk_before_the_freeze() {
    let (launcher, agent) = launcher_with_recorded_agent().await;
    let request = |tpm: Value| {
        let mut vmi = vmi_json();
        vmi["spec"]["domain"]["devices"]["tpm"] = tpm;
        FreezeRequest {
            vmi: vmi_message(&vmi),
            unfreeze_timeout_seconds: 0,
        }
    };
    let mut client = client(&launcher).await;
    let disabled_tpm = request(json!({"enabled": false, "persistent": true}));
    let answer = client.freeze_virtual_machine(disabled_tpm).await.unwrap();
    assert!(answer.get_ref().success, "{answer:?}");
    assert!(unfreeze(&launcher).await.success);
    let freezes = agent.count("guest-fsfreeze-freeze");
    let request = request(json!({"persistent": true}));
    let answer = client
        .freeze_virtual_machine(request.clone())
        .await
        .unwrap()
        .into_inner();
    assert!(
        answer.message.contains("swtpm"),
        "swtpm's directory is missing: {answer:?}"
    );
    assert_eq!(agent.count("guest-fsfreeze-freeze"), freezes);
    let swtpm_state = launcher.paths.qemu_lib.with_file_name("swtpm");
    std::fs::create_dir_all(swtpm_state.join("tpm2")).unwrap();
    std::fs::write(swtpm_state.join("tpm2/tpm2-00.permall"), b"state").unwrap();
    let answer = client
        .freeze_virtual_machine(request)
        .await
        .unwrap()
        .into_inner();
    assert!(answer.success, "{answer:?}");
}
