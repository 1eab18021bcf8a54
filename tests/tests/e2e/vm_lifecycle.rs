//! The lifecycle of a VM from boot to deletion, with the notifications that virt-handler relies on.

use anyhow::{Result, ensure};
use proto::cmd::v1::EmptyRequest;
use serde_json::Value;
use tests::emulated_virt_handler::Phase;
use tests::launcher_fixture::{BOOT_TIMEOUT, EVENT_TIMEOUT, LauncherFixture};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

use crate::distinct;
use crate::start_notifications::assert_started;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn boot_pause_reboot_and_shutdown_as_root() -> Result<()> {
    boot_pause_reboot_and_shutdown(LauncherUser::Root).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn boot_pause_reboot_and_shutdown_as_uid_107() -> Result<()> {
    boot_pause_reboot_and_shutdown(LauncherUser::Nonroot).await
}

async fn boot_pause_reboot_and_shutdown(user: LauncherUser) -> Result<()> {
    let vmi = Vmi::new("life", user)
        .empty_disk("scratch", "64Mi")
        .grace_period(30);
    let mut fixture = LauncherFixture::start(user, &vmi).await?;
    check_answers_before_any_domain(&fixture).await?;
    fixture.boot_and_read_reports(&vmi).await?;
    assert_started(&fixture);
    check_metadata_of_a_start(&fixture, &vmi);
    check_repeated_sync(&fixture, &vmi).await?;
    check_pause_and_unpause(&fixture, &vmi).await?;
    check_reset_and_soft_reboot(&fixture, &vmi).await?;
    check_answers_of_a_running_vm(&fixture, &vmi).await?;
    check_graceful_shutdown(&fixture, &vmi).await?;
    check_deletion(&mut fixture).await
}

async fn check_answers_before_any_domain(fixture: &LauncherFixture) -> Result<()> {
    assert_eq!(fixture.commands.info().await?, [1]);
    fixture.commands.ping().await?.accepted()?;
    assert_eq!(fixture.commands.domain().await?, Value::Null);
    assert!(
        fixture.handler.states().is_empty(),
        "{}",
        fixture.handler.history()
    );
    Ok(())
}

fn check_metadata_of_a_start(fixture: &LauncherFixture, vmi: &Vmi) {
    let events = fixture.handler.events();
    let name =
        |event: &tests::emulated_virt_handler::Event| event.domain()["ObjectMeta"]["name"].clone();
    assert!(
        events.iter().all(|event| name(event) == vmi.name()),
        "{}",
        fixture.handler.history()
    );
    let uid = &events[0].domain()["ObjectMeta"]["uid"];
    assert!(
        uid.is_null() || uid == "",
        "the first event has no uid yet: {uid}"
    );
    for event in &events[1..] {
        assert_eq!(event.domain()["ObjectMeta"]["uid"], vmi.uid());
        assert_eq!(
            event.metadata()["GracePeriod"]["DeletionGracePeriodSeconds"],
            30,
            "{}",
            event.metadata()
        );
        assert!(event.metadata()["GracePeriod"]["DeletionTimestamp"].is_null());
    }
    assert_eq!(events[1].domain()["Spec"]["Name"], vmi.domain());
}

async fn check_repeated_sync(fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let qemu = fixture.pod.qemu().map(|process| process.pid);
    assert!(qemu.is_some());
    fixture.commands.sync(vmi).await?.accepted()?;
    assert_eq!(fixture.pod.qemu().map(|process| process.pid), qemu);
    assert_started(fixture);
    Ok(())
}

async fn check_pause_and_unpause(fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let before = fixture.handler.events().len();
    fixture.commands.pause(vmi).await?.accepted()?;
    let paused = fixture
        .handler
        .wait_for_state("Paused/User", before, EVENT_TIMEOUT)
        .await?;
    ensure!(
        paused.metadata()["Migration"].is_null(),
        "a pause is no migration: {}",
        paused.metadata()
    );
    fixture.commands.pause(vmi).await?.accepted()?;
    let before_unpause = fixture.handler.events().len();
    fixture.commands.unpause(vmi).await?.accepted()?;
    fixture
        .handler
        .wait_for_state("Running/Unknown", before_unpause, EVENT_TIMEOUT)
        .await?;
    fixture.commands.unpause(vmi).await?.accepted()?;
    let states = distinct(fixture.handler.states()[before..].to_vec());
    // If the guest agent connects before the pause, there is a notification of the running VM first.
    let from_pause: Vec<_> = states
        .iter()
        .skip_while(|state| *state == "MODIFIED Running/Unknown")
        .collect();
    assert_eq!(
        from_pause,
        ["MODIFIED Paused/User", "MODIFIED Running/Unknown"]
    );
    Ok(())
}

async fn check_reset_and_soft_reboot(fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let console = fixture.pod.console(vmi);
    let qemu = fixture.pod.qemu().map(|process| process.pid);
    fixture.commands.reset(vmi).await?.accepted()?;
    console.wait_for_boots(2, BOOT_TIMEOUT).await?;
    fixture.wait_for_agent(vmi).await?;
    fixture.commands.soft_reboot(vmi).await?.accepted()?;
    console.wait_for_boots(3, BOOT_TIMEOUT).await?;
    assert_eq!(
        fixture.pod.qemu().map(|process| process.pid),
        qemu,
        "a reboot keeps QEMU"
    );
    Ok(())
}

async fn check_answers_of_a_running_vm(fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let commands = &fixture.commands;
    fixture.wait_for_agent(vmi).await?;
    let exec = commands
        .exec(vmi, "/bin/sh", &["-c", "echo from the guest; exit 3"])
        .await?;
    assert_eq!((exec.exit_code, exec.std_out.trim()), (3, "from the guest"));
    assert_eq!(commands.domain().await?["Status"]["Status"], "Running");
    assert_eq!(commands.domain_stats().await?["Name"], vmi.domain());
    let version = commands.qemu_version().await?;
    assert!(version.starts_with("QEMU "), "{version}");
    let mut raw = commands.raw.clone();
    let guest = raw.get_guest_info(EmptyRequest {}).await?.into_inner();
    assert!(guest.response.unwrap().success);
    serde_json::from_str::<Value>(&guest.guest_info_response)?;
    let users = raw.get_users(EmptyRequest {}).await?.into_inner();
    assert!(users.response.unwrap().success);
    serde_json::from_str::<Value>(&users.guest_user_list_response)?;
    let filesystems = raw.get_filesystems(EmptyRequest {}).await?.into_inner();
    assert!(filesystems.response.unwrap().success);
    serde_json::from_str::<Value>(&filesystems.guest_filesystems_response)?;
    Ok(())
}

async fn check_graceful_shutdown(fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let before = fixture.handler.events().len();
    fixture.handler.delete();
    // A fast guest may already be shutting down when the launcher reads the state for the notification.
    let has_deletion_timestamp = |event: &tests::emulated_virt_handler::Event| {
        ["Running/Unknown", "ShuttingDown/Unknown"].contains(&event.state().as_str())
            && event.metadata()["GracePeriod"]["DeletionTimestamp"].is_string()
    };
    fixture
        .handler
        .wait_for(
            "a DeletionTimestamp of a guest that is up",
            before,
            EVENT_TIMEOUT,
            has_deletion_timestamp,
        )
        .await?;
    fixture
        .handler
        .wait_for_state("Shutoff/Shutdown", before, BOOT_TIMEOUT)
        .await?;
    assert!(fixture.pod.console(vmi).has_reported("powering off"));
    Ok(())
}

async fn check_deletion(fixture: &mut LauncherFixture) -> Result<()> {
    fixture.expect_end_in_phase(Phase::Succeeded).await?;
    let deletion = fixture
        .handler
        .wait_for_state("NoState/NonExistent", 0, EVENT_TIMEOUT)
        .await?;
    assert_eq!(deletion.event_type(), "MODIFIED");
    assert!(
        deletion.domain()["ObjectMeta"]["deletionTimestamp"].is_string(),
        "{}",
        deletion.domain()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_vm_can_be_deleted() -> Result<()> {
    let vmi = Vmi::new("killed", LauncherUser::Nonroot);
    let mut fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot_without_controller(&vmi).await?;
    let before = fixture.handler.events().len();
    fixture.commands.kill(&vmi).await?.accepted()?;
    fixture
        .handler
        .wait_for_state("Shutoff/Destroyed", before, EVENT_TIMEOUT)
        .await?;
    fixture.commands.kill(&vmi).await?.accepted()?;
    fixture.commands.delete(&vmi).await?.accepted()?;
    let deletion = fixture
        .handler
        .wait_for_state("NoState/NonExistent", before, EVENT_TIMEOUT)
        .await?;
    assert!(deletion.domain()["ObjectMeta"]["deletionTimestamp"].is_string());
    fixture.expect_exit_code(0).await
}
