//! A daemon that dies during an attach leaves devices that QEMU has and libvirt does not know. The launcher removes
//! them, and the next attach succeeds.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tests::launcher_fixture::{EVENT_TIMEOUT, LauncherFixture};
use tests::pod::LauncherUser;
use tests::virsh::qemu_command;
use tests::vmi_builder::Vmi;

use crate::volume_hotplug_fixture::{hotplugged, put_image, vmi_with_volume, wait_for_disk};

const BLOCK_NODE: &str = "libvirt-77-storage";

async fn run_qemu_command(
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

/// The block nodes of the disk that libvirt does not know.
async fn unknown_block_nodes(fixture: &LauncherFixture, vmi: &Vmi) -> Result<Vec<String>> {
    let nodes = run_qemu_command(fixture, vmi, "query-named-block-nodes", json!({})).await?;
    let names = nodes.as_array().into_iter().flatten();
    let names = names.filter_map(|node| node["node-name"].as_str());
    let names = names.filter(|name| name.starts_with("libvirt-77-"));
    Ok(names.map(str::to_owned).collect())
}

/// Adds a disk to QEMU without libvirt, with names as libvirt uses them.
async fn add_disk_to_qemu(
    fixture: &LauncherFixture,
    vmi: &Vmi,
    name: &str,
    device: Value,
) -> Result<()> {
    let file = format!("/var/run/kubevirt/hotplug-disks/{name}.img");
    let node = json!({ "node-name": BLOCK_NODE, "driver": "file", "filename": file });
    run_qemu_command(fixture, vmi, "blockdev-add", node).await?;
    let format = json!({ "node-name": "libvirt-77-format", "driver": "raw", "file": BLOCK_NODE });
    run_qemu_command(fixture, vmi, "blockdev-add", format).await?;
    run_qemu_command(fixture, vmi, "device_add", device)
        .await
        .map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_that_only_qemu_knows_is_removed_and_attached_again() -> Result<()> {
    let vmi = vmi_with_volume("stray");
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot_without_controller(&vmi).await?;
    fixture.wait_for_agent(&vmi).await?;
    put_image(&fixture.pod, "one")?;
    let device = json!({ "driver": "scsi-hd", "bus": "scsi0.0", "channel": 0, "scsi-id": 0, "lun": 0,
        "drive": "libvirt-77-format", "id": "ua-one" });
    add_disk_to_qemu(&fixture, &vmi, "one", device).await?;
    wait_for_disk(&fixture, &vmi, "sda", true).await?;
    let disk = json!({ "name": "one", "disk": { "bus": "scsi" } });
    let with_disk = hotplugged(vmi.clone(), "one", disk, "MountedToPod");
    fixture.commands.sync(&with_disk).await?.accepted()?;
    let domain = fixture.commands.domain().await?.to_string();
    ensure!(domain.contains("\"one\""), "{domain}");
    wait_for_disk(&fixture, &vmi, "sda", true).await?;
    let remaining = unknown_block_nodes(&fixture, &vmi).await?;
    ensure!(remaining.is_empty(), "{remaining:?}");
    ensure!(
        fixture
            .pod
            .log()
            .contains("QEMU has a device that libvirt does not know"),
        "{}",
        fixture.handler.history()
    );
    fixture.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attach_that_died_with_the_daemon_is_repeated() -> Result<()> {
    use rustix::process::{Signal, kill_process};

    let vmi = vmi_with_volume("halfway");
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot_without_controller(&vmi).await?;
    fixture.wait_for_agent(&vmi).await?;
    put_image(&fixture.pod, "one")?;
    let disk = json!({ "name": "one", "disk": { "bus": "scsi" } });
    let with_disk = hotplugged(vmi.clone(), "one", disk, "MountedToPod");
    let (qemu, daemon) = (fixture.pod.qemu(), fixture.pod.daemon());
    let (Some(qemu), Some(daemon)) = (qemu, daemon) else {
        anyhow::bail!("QEMU and the daemon do not run");
    };
    // QEMU is stopped, so that the daemon is killed while it waits for QEMU's first answer.
    kill_process(qemu.pid, Signal::STOP)?;
    let (commands, vmi_with_disk) = (fixture.commands.clone(), with_disk.clone());
    let sync = tokio::spawn(async move { commands.sync(&vmi_with_disk).await });
    tokio::time::sleep(EVENT_TIMEOUT / 20).await;
    daemon.kill()?;
    kill_process(qemu.pid, Signal::CONT)?;
    let _ = sync.await?;
    let succeeds = async || {
        tokio::time::sleep(EVENT_TIMEOUT / 50).await;
        let answer = fixture.commands.sync(&with_disk).await.ok()?;
        answer.success.then_some(())
    };
    tests::wait_until(
        "a sync that succeeds",
        tests::launcher_fixture::BOOT_TIMEOUT,
        succeeds,
    )
    .await?;
    wait_for_disk(&fixture, &vmi, "sda", true).await?;
    fixture.commands.sync(&vmi).await?.accepted()?;
    wait_for_disk(&fixture, &vmi, "sda", false).await?;
    fixture.end_vm(&vmi).await
}
