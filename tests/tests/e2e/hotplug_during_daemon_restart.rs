//! Hotplug of a disk while libvirt's daemon restarts.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tests::launcher_fixture::{BOOT_TIMEOUT, LauncherFixture};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

use crate::volume_hotplug_fixture::{hotplugged, put_image, vmi_with_volume, wait_for_disk};

/// Repeats the sync as virt-handler does, until it succeeds.
async fn sync_until_it_succeeds(fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let succeeds = async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let answer = fixture.commands.sync(vmi).await.ok()?;
        answer.success.then_some(())
    };
    tests::wait_until("a sync that succeeds", BOOT_TIMEOUT, succeeds).await
}

/// Kills the daemon and sends a sync at once. `devices_unknown_to_libvirt` tests a daemon that dies during an attach.
async fn sync_while_the_daemon_restarts(fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let daemon = fixture.pod.daemon().context("no daemon")?;
    daemon.kill()?;
    // It is left to chance whether the sync reaches the daemon before or after its restart.
    let _ = fixture.commands.sync(vmi).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_is_attached_and_detached_while_the_daemon_restarts() -> Result<()> {
    let vmi = vmi_with_volume("dying");
    let disk = json!({ "name": "one", "disk": { "bus": "scsi" } });
    let with_disk = hotplugged(vmi.clone(), "one", disk, "MountedToPod");
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot_without_controller(&vmi).await?;
    fixture.wait_for_agent(&vmi).await?;
    put_image(&fixture.pod, "one")?;
    sync_while_the_daemon_restarts(&fixture, &with_disk).await?;
    sync_until_it_succeeds(&fixture, &with_disk).await?;
    wait_for_disk(&fixture, &vmi, "sda", true).await?;
    sync_while_the_daemon_restarts(&fixture, &vmi).await?;
    sync_until_it_succeeds(&fixture, &vmi).await?;
    wait_for_disk(&fixture, &vmi, "sda", false).await?;
    let domain = fixture.commands.domain().await?;
    let disks = domain["Spec"]["Devices"]["Disks"].as_array();
    ensure!(disks.is_some_and(|disks| disks.len() == 1), "{domain}");
    fixture.end_vm(&vmi).await
}
