//! Devices that QEMU has and libvirt does not know, left by a daemon that died during an attach: they are removed,
//! and the attach succeeds.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tests::launcher_fixture::{EVENT, LauncherFixture};
use tests::migration::qemu_command;
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

use crate::hotplug_volumes::{base, hotplugged, put_image, wait_for_disk};

const NODE: &str = "libvirt-77-storage";

async fn ask(
    fixture: &LauncherFixture,
    vmi: &Vmi,
    command: &str,
    arguments: Value,
) -> Result<Value> {
    let command = json!({ "execute": command, "arguments": arguments }).to_string();
    let answer = qemu_command(&fixture.pod, vmi, &command).await?;
    ensure!(answer.get("return").is_some(), "{command}: {answer}");
    Ok(answer["return"].clone())
}

/// The block nodes that were made behind libvirt's back.
async fn nodes(fixture: &LauncherFixture, vmi: &Vmi) -> Result<Vec<String>> {
    let nodes = ask(fixture, vmi, "query-named-block-nodes", json!({})).await?;
    let names = nodes.as_array().into_iter().flatten();
    let names = names.filter_map(|node| node["node-name"].as_str());
    let names = names.filter(|name| name.starts_with("libvirt-77-"));
    Ok(names.map(str::to_owned).collect())
}

/// Gives QEMU a disk behind libvirt's back, with the names that libvirt uses.
async fn plug_behind_libvirts_back(
    fixture: &LauncherFixture,
    vmi: &Vmi,
    name: &str,
    device: Value,
) -> Result<()> {
    let file = format!("/var/run/kubevirt/hotplug-disks/{name}.img");
    let node = json!({ "node-name": NODE, "driver": "file", "filename": file });
    ask(fixture, vmi, "blockdev-add", node).await?;
    let format = json!({ "node-name": "libvirt-77-format", "driver": "raw", "file": NODE });
    ask(fixture, vmi, "blockdev-add", format).await?;
    ask(fixture, vmi, "device_add", device).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_that_only_qemu_knows_is_removed_and_attached_again() -> Result<()> {
    let plain = base("stray");
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &plain).await?;
    fixture.boot_without_controller(&plain).await?;
    fixture.wait_for_agent(&plain).await?;
    put_image(&fixture.pod, "one")?;
    let device = json!({ "driver": "scsi-hd", "bus": "scsi0.0", "channel": 0, "scsi-id": 0, "lun": 0,
        "drive": "libvirt-77-format", "id": "ua-one" });
    plug_behind_libvirts_back(&fixture, &plain, "one", device).await?;
    wait_for_disk(&fixture, &plain, "sda", true).await?;
    let disk = json!({ "name": "one", "disk": { "bus": "scsi" } });
    let with_disk = hotplugged(plain.clone(), "one", disk, "MountedToPod");
    fixture.commands.sync(&with_disk).await?.ok()?;
    let domain = fixture.commands.domain().await?.to_string();
    ensure!(domain.contains("\"one\""), "{domain}");
    wait_for_disk(&fixture, &plain, "sda", true).await?;
    let left = nodes(&fixture, &plain).await?;
    ensure!(left.is_empty(), "{left:?}");
    ensure!(
        fixture
            .pod
            .log()
            .contains("QEMU has a device that libvirt does not know"),
        "{}",
        fixture.handler.history()
    );
    fixture.end_vm(&plain).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attach_that_died_with_the_daemon_is_repeated() -> Result<()> {
    use rustix::process::{Signal, kill_process};

    let plain = base("halfway");
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &plain).await?;
    fixture.boot_without_controller(&plain).await?;
    fixture.wait_for_agent(&plain).await?;
    put_image(&fixture.pod, "one")?;
    let disk = json!({ "name": "one", "disk": { "bus": "scsi" } });
    let with_disk = hotplugged(plain.clone(), "one", disk, "MountedToPod");
    let (qemu, daemon) = (fixture.pod.qemu(), fixture.pod.daemon());
    let (Some(qemu), Some(daemon)) = (qemu, daemon) else {
        anyhow::bail!("QEMU and the daemon do not run");
    };
    // QEMU is stopped, so that the daemon dies while it waits for the answer to its first command.
    kill_process(qemu.pid, Signal::STOP)?;
    let (commands, vmi) = (fixture.commands.clone(), with_disk.clone());
    let sync = tokio::spawn(async move { commands.sync(&vmi).await });
    tokio::time::sleep(EVENT / 20).await;
    daemon.kill()?;
    kill_process(qemu.pid, Signal::CONT)?;
    let _ = sync.await?;
    let synced = async || {
        tokio::time::sleep(EVENT / 50).await;
        let answer = fixture.commands.sync(&with_disk).await.ok()?;
        answer.success.then_some(())
    };
    tests::until(
        "a sync that succeeds",
        tests::launcher_fixture::BOOT,
        synced,
    )
    .await?;
    wait_for_disk(&fixture, &plain, "sda", true).await?;
    fixture.commands.sync(&plain).await?.ok()?;
    wait_for_disk(&fixture, &plain, "sda", false).await?;
    fixture.end_vm(&plain).await
}
