//! The whole life of a VM, with the notifications that virt-handler relies on.

use anyhow::{Result, ensure};
use proto::cmd::v1::EmptyRequest;
use serde_json::Value;
use tests::pod::User;
use tests::scenario::{BOOT, EVENT, Scene};
use tests::vmi::Vmi;

use crate::distinct;

/// Sync: defined without, then with metadata, starting up, resumed, started.
const STARTED: [&str; 5] = [
    "ADDED Shutoff/Unknown",
    "MODIFIED Shutoff/Unknown",
    "MODIFIED Paused/StartingUp",
    "MODIFIED Running/Unknown",
    "MODIFIED Running/Unknown",
];

/// What was told is [`STARTED`], and perhaps that the agent came.
pub(crate) fn assert_started(scene: &Scene) {
    let states = scene.handler.states();
    let history = scene.handler.history();
    let (start, rest) = states.split_at(STARTED.len().min(states.len()));
    assert_eq!(start, STARTED, "{history}");
    assert!(rest.iter().all(|state| state == STARTED[4]), "{history}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_root() -> Result<()> {
    whole_life(User::Root).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_uid_107() -> Result<()> {
    whole_life(User::Nonroot).await
}

async fn whole_life(user: User) -> Result<()> {
    let vmi = Vmi::new("life", user).empty_disk("scratch", "64Mi");
    let mut scene = Scene::open(user, &vmi).await?;
    answers_before_any_domain(&scene).await?;
    scene.boot_to_ready(&vmi).await?;
    assert_started(&scene);
    metadata_of_a_start(&scene, &vmi);
    syncing_again_changes_nothing(&scene, &vmi).await?;
    pausing_and_unpausing(&scene, &vmi).await?;
    rebooting(&scene, &vmi).await?;
    answers_of_a_running_vm(&scene, &vmi).await?;
    graceful_shutdown(&scene, &vmi).await?;
    deletion(&mut scene, &vmi).await
}

async fn answers_before_any_domain(scene: &Scene) -> Result<()> {
    assert_eq!(scene.commands.info().await?, [1]);
    scene.commands.ping().await?.ok()?;
    assert_eq!(scene.commands.domain().await?, Value::Null);
    assert!(
        scene.handler.states().is_empty(),
        "{}",
        scene.handler.history()
    );
    Ok(())
}

fn metadata_of_a_start(scene: &Scene, vmi: &Vmi) {
    let events = scene.handler.events();
    let name = |event: &tests::virt_handler::Event| event.domain()["ObjectMeta"]["name"].clone();
    assert!(
        events.iter().all(|event| name(event) == vmi.name()),
        "{}",
        scene.handler.history()
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
            5,
            "{}",
            event.metadata()
        );
        assert!(event.metadata()["GracePeriod"]["DeletionTimestamp"].is_null());
    }
    assert_eq!(events[1].domain()["Spec"]["Name"], vmi.domain());
}

async fn syncing_again_changes_nothing(scene: &Scene, vmi: &Vmi) -> Result<()> {
    let qemu = scene.pod.qemu().map(|process| process.pid);
    assert!(qemu.is_some());
    scene.commands.sync(vmi).await?.ok()?;
    assert_eq!(scene.pod.qemu().map(|process| process.pid), qemu);
    assert_started(scene);
    Ok(())
}

async fn pausing_and_unpausing(scene: &Scene, vmi: &Vmi) -> Result<()> {
    let before = scene.handler.events().len();
    scene.commands.pause(vmi).await?.ok()?;
    let paused = scene
        .handler
        .wait_for_state("Paused/User", before, EVENT)
        .await?;
    ensure!(
        paused.metadata()["Migration"].is_null(),
        "a pause is no migration: {}",
        paused.metadata()
    );
    scene.commands.pause(vmi).await?.ok()?;
    let before_unpause = scene.handler.events().len();
    scene.commands.unpause(vmi).await?.ok()?;
    scene
        .handler
        .wait_for_state("Running/Unknown", before_unpause, EVENT)
        .await?;
    scene.commands.unpause(vmi).await?.ok()?;
    let states = distinct(scene.handler.states()[before..].to_vec());
    assert_eq!(states, ["MODIFIED Paused/User", "MODIFIED Running/Unknown"]);
    Ok(())
}

async fn rebooting(scene: &Scene, vmi: &Vmi) -> Result<()> {
    let console = scene.pod.console(vmi);
    let qemu = scene.pod.qemu().map(|process| process.pid);
    scene.commands.reset(vmi).await?.ok()?;
    console.ready(2, BOOT).await?;
    scene.agent(vmi).await?;
    scene.commands.soft_reboot(vmi).await?.ok()?;
    console.ready(3, BOOT).await?;
    assert_eq!(
        scene.pod.qemu().map(|process| process.pid),
        qemu,
        "a reboot keeps QEMU"
    );
    Ok(())
}

async fn answers_of_a_running_vm(scene: &Scene, vmi: &Vmi) -> Result<()> {
    let commands = &scene.commands;
    scene.agent(vmi).await?;
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

async fn graceful_shutdown(scene: &Scene, vmi: &Vmi) -> Result<()> {
    let before = scene.handler.events().len();
    scene.commands.shutdown(vmi).await?.ok()?;
    let stamped = |event: &tests::virt_handler::Event| {
        event.state() == "Running/Unknown"
            && event.metadata()["GracePeriod"]["DeletionTimestamp"].is_string()
    };
    scene
        .handler
        .wait_for("Running with a DeletionTimestamp", before, EVENT, stamped)
        .await?;
    scene
        .handler
        .wait_for_state("Shutoff/Shutdown", before, BOOT)
        .await?;
    assert!(scene.pod.console(vmi).told("powering off"));
    Ok(())
}

async fn deletion(scene: &mut Scene, vmi: &Vmi) -> Result<()> {
    // virt-handler deletes when it sees the domain off; the launcher may be on its way out by then.
    let _ = scene.commands.delete(vmi).await;
    scene.ends_with(0).await?;
    let gone = scene
        .handler
        .wait_for_state("NoState/NonExistent", 0, EVENT)
        .await?;
    assert_eq!(gone.event_type(), "MODIFIED");
    assert!(
        gone.domain()["ObjectMeta"]["deletionTimestamp"].is_string(),
        "{}",
        gone.domain()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_deleted() -> Result<()> {
    let vmi = Vmi::new("killed", User::Nonroot);
    let mut scene = Scene::open(User::Nonroot, &vmi).await?;
    scene.boot(&vmi).await?;
    let before = scene.handler.events().len();
    scene.commands.kill(&vmi).await?.ok()?;
    scene
        .handler
        .wait_for_state("Shutoff/Destroyed", before, EVENT)
        .await?;
    scene.commands.kill(&vmi).await?.ok()?;
    scene.commands.delete(&vmi).await?.ok()?;
    let gone = scene
        .handler
        .wait_for_state("NoState/NonExistent", before, EVENT)
        .await?;
    assert!(gone.domain()["ObjectMeta"]["deletionTimestamp"].is_string());
    scene.ends_with(0).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn started_paused() -> Result<()> {
    let vmi = Vmi::new("paused", User::Nonroot)
        .edit(|vmi| vmi["spec"]["startStrategy"] = "Paused".into());
    let scene = Scene::open(User::Nonroot, &vmi).await?;
    scene.commands.sync(&vmi).await?.ok()?;
    let paused = |event: &tests::virt_handler::Event| event.state().starts_with("Paused/");
    scene.handler.wait_for("Paused", 0, BOOT, paused).await?;
    assert!(
        !scene
            .handler
            .states()
            .contains(&"MODIFIED Running/Unknown".to_owned()),
        "{}",
        scene.handler.history()
    );
    assert_eq!(scene.pod.console(&vmi).text(), "");
    scene.commands.unpause(&vmi).await?.ok()?;
    scene
        .handler
        .wait_for_state("Running/Unknown", 0, EVENT)
        .await?;
    scene.close(&vmi).await
}
