//! Commands over the life of a VM, repeated and concurrent, and the notifications that follow.

use std::sync::Arc;
use std::time::Duration;

use kubevirt_api::vmi::Vmi;
use libvirt::DomainState;
use libvirt::fake::{Call, FakeDaemon};
use serde_json::json;
use virt_launcher::manager::{Command, CommandEffect};

use crate::fake_libvirt_rig::{DOMAIN, Rig, count, state, sync, vmi_json};

#[tokio::test(flavor = "multi_thread")]
async fn notifications_of_a_whole_life() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    let notifications = rig.notifications_until("Running").await;
    assert_eq!(notifications[0], "ADDED uid= Shutoff/Unknown");
    assert_eq!(count(&notifications, "ADDED"), 1);
    assert!(
        notifications.contains(&"MODIFIED uid=1234 Running/Unknown grace=5".to_owned()),
        "{notifications:#?}"
    );
    rig.manager.run(Command::Pause).await.unwrap();
    let notifications = rig.notifications_until("Paused/User").await;
    assert_eq!(
        count(&notifications, "Paused/User"),
        1,
        "a plain pause is told once: {notifications:#?}"
    );
    rig.manager.run(Command::Unpause).await.unwrap();
    rig.fake.obey_shutdown(false);
    rig.manager.run(Command::Shutdown).await.unwrap();
    rig.notifications_until("Running/Unknown grace=5 deleting")
        .await;
    rig.manager.run(Command::Kill).await.unwrap();
    rig.notifications_until("Shutoff/Destroyed").await;
    rig.manager.run(Command::Delete).await.unwrap();
    let notifications = rig.notifications_until("NonExistent").await;
    assert_eq!(
        notifications.last().unwrap(),
        "MODIFIED uid=1234 NoState/NonExistent gone"
    );
    assert_eq!(count(&notifications, "DELETED"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_state_is_notified_once() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.notifications_until("Running").await;
    rig.manager.run(Command::Kill).await.unwrap();
    rig.notifications_until("Shutoff/Destroyed").await;
    rig.manager.run(Command::Delete).await.unwrap();
    let notifications = rig.notifications_until("NonExistent").await;
    let repeated = notifications.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(repeated, None, "{notifications:#?}");
    assert_eq!(count(&notifications, "NonExistent"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_of_an_ended_vm_succeeds_while_the_launcher_ends() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.manager.run(Command::Kill).await.unwrap();
    rig.notifications_until("Shutoff/Destroyed").await;
    rig.manager.close().await;
    let deleted = rig.manager.run(Command::Delete).await.unwrap();
    assert_eq!(deleted, CommandEffect::AlreadySo);
    let error = rig.manager.run(Command::Pause).await.unwrap_err();
    assert!(error.is_refusal(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn running_vm_is_not_deleted_while_the_launcher_ends() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.notifications_until("Running").await;
    rig.manager.close().await;
    let error = rig.manager.run(Command::Delete).await.unwrap_err();
    assert!(error.is_refusal(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_are_sent_as_kubernetes_events() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.fake.io_error(DOMAIN, "ua-data");
    let notifications = rig.notifications_until("EVENT").await;
    let full = "EVENT IOerror: VM Paused due to not enough space on volume: data";
    assert_eq!(count(&notifications, full), 1, "{notifications:#?}");
    std::fs::create_dir_all(&rig.paths.qemu_logs).unwrap();
    let log = "2026-11-21 16:30:49.506+0000: panic pvpanic-like: \n";
    std::fs::write(rig.paths.qemu_log(DOMAIN), log).unwrap();
    rig.fake.panic_guest(DOMAIN);
    let notifications = rig.notifications_until("GuestPanicked").await;
    let panicked = "EVENT GuestPanicked: GuestPanicked: type=pvpanic-like";
    assert_eq!(count(&notifications, panicked), 1, "{notifications:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_time_is_set_after_a_pause() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    let (sender, mut commands) = tokio::sync::mpsc::unbounded_channel();
    let agent = move |json: &str| {
        if json.contains("guest-set-time") {
            let _ = sender.send(json.to_owned());
        }
        Ok("{}".to_owned())
    };
    rig.fake.set_agent(DOMAIN, Some(Arc::new(agent)));
    rig.manager.run(Command::Pause).await.unwrap();
    rig.manager.run(Command::Unpause).await.unwrap();
    let command = tokio::time::timeout(Duration::from_secs(20), commands.recv());
    let command = command.await.unwrap().unwrap();
    assert!(command.contains("guest-set-time"), "{command}");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_commands_do_nothing() {
    let rig = Rig::new().await;
    rig.manager.run(Command::Kill).await.unwrap();
    rig.manager.run(Command::Delete).await.unwrap();
    for _ in 0..2 {
        rig.manager.run(Command::sync(sync())).await.unwrap();
    }
    assert_eq!(rig.fake.count(Call::Start), 1);
    for _ in 0..2 {
        rig.manager.run(Command::Pause).await.unwrap();
    }
    assert_eq!(rig.fake.count(Call::Suspend), 1);
    rig.manager.run(Command::sync(sync())).await.unwrap();
    assert_eq!(
        state(&rig),
        Some(DomainState::Paused),
        "a sync does not undo a user's pause"
    );
    for _ in 0..2 {
        rig.manager.run(Command::Unpause).await.unwrap();
    }
    assert_eq!(rig.fake.count(Call::Resume), 1);
    for _ in 0..2 {
        rig.manager.run(Command::Kill).await.unwrap();
    }
    for _ in 0..2 {
        rig.manager.run(Command::Delete).await.unwrap();
    }
    assert_eq!(state(&rig), None);
}

/// A VMI whose agent was connected when virt-handler read it last.
fn with_agent(acpi: bool) -> Box<Vmi> {
    let mut vmi = vmi_json();
    vmi["status"]["conditions"] = json!([{"type": "AgentConnected", "status": "True"}]);
    vmi["spec"]["domain"]["features"] = json!({"acpi": {"enabled": acpi}});
    Box::new(Vmi::from_json(vmi.to_string().as_bytes()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn soft_reboot_presses_the_power_button_of_a_guest_whose_agent_is_silent() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    let without_button = Command::SoftReboot(with_agent(false));
    rig.manager.run(without_button).await.unwrap_err();
    assert_eq!(rig.fake.count(Call::Reboot), 0);
    let with_button = Command::SoftReboot(with_agent(true));
    let answer = rig.manager.run(with_button).await.unwrap();
    assert_eq!(answer, CommandEffect::Changed);
    assert_eq!(rig.fake.count(Call::Agent), 2, "a ping each");
    assert_eq!(rig.fake.count(Call::Reboot), 1, "the power button");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_delete_succeeds_while_the_launcher_exits() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.manager.run(Command::Kill).await.unwrap();
    rig.manager.run(Command::Delete).await.unwrap();
    rig.notifications_until("NonExistent").await;
    rig.manager.close().await;
    let again = rig.manager.run(Command::Delete).await.unwrap();
    assert_eq!(again, CommandEffect::AlreadySo);
    let error = rig.manager.run(Command::Pause).await.unwrap_err();
    assert_eq!(error.message(), "the launcher is exiting");
}

#[tokio::test(flavor = "multi_thread")]
async fn transient_domains_end_is_published_before_it_is_gone() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.notifications_until("Running").await;
    rig.manager.run(Command::Delete).await.unwrap();
    rig.fake.power_off(DOMAIN);
    let notifications = rig.notifications_until("NonExistent").await;
    let last = &notifications[notifications.len() - 2..];
    assert!(last[0].contains("Shutoff/Shutdown"), "{notifications:#?}");
    assert!(
        last[1].contains("NoState/NonExistent gone"),
        "{notifications:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn late_pause_is_not_undone_by_a_sync() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    let broken = FakeDaemon::error(38, 7, "cannot recv data: Connection reset by peer");
    rig.fake.fail_next(Call::Suspend, broken);
    rig.manager.run(Command::Pause).await.unwrap_err();
    let domain = rig.fake.connect().unwrap().lookup(DOMAIN).unwrap().unwrap();
    domain.suspend().unwrap();
    rig.manager.run(Command::sync(sync())).await.unwrap();
    assert_eq!(state(&rig), Some(DomainState::Paused));
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_resumes_a_paused_vm_first() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.manager.run(Command::Pause).await.unwrap();
    rig.manager.run(Command::Shutdown).await.unwrap();
    rig.notifications_until("Shutoff/Shutdown").await;
    let again = rig.manager.run(Command::Shutdown).await.unwrap();
    assert_eq!(again, CommandEffect::AlreadySo);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_caller_is_answered_at_the_end() {
    let rig = Rig::new().await;
    rig.fake.delay(Call::Start, Duration::from_millis(200));
    let starting = tokio::spawn({
        let manager = rig.manager.clone();
        async move { manager.run(Command::sync(sync())).await }
    });
    while rig.fake.count(Call::Start) == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let waiting = tokio::spawn({
        let manager = rig.manager.clone();
        async move { manager.run(Command::Pause).await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    rig.manager.close().await;
    assert_eq!(
        waiting.await.unwrap().unwrap_err().message(),
        "the launcher is exiting"
    );
    assert!(
        starting.await.unwrap().is_ok(),
        "what was past its last safe point ends by itself"
    );
    assert_eq!(
        rig.manager.run(Command::Pause).await.unwrap_err().message(),
        "the launcher is exiting"
    );
}
