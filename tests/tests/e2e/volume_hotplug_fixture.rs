//! The fixture of the volume hotplug tests: VMIs with hotplugged volumes, images, and waits for the
//! guest.

use std::fs;
use std::os::unix::fs::chown;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tests::launcher_fixture::{BOOT_TIMEOUT, EVENT_TIMEOUT, LauncherFixture};
use tests::pod::{LauncherUser, Pod, QEMU_UID};
use tests::vmi_builder::Vmi;

const MIB: u64 = 1 << 20;

/// Adds a hotplugged volume in this phase, with this disk.
pub(crate) fn hotplugged(vmi: Vmi, name: &str, disk: Value, phase: &str) -> Vmi {
    vmi.volume(
        name,
        json!({ "persistentVolumeClaim": { "claimName": name, "hotpluggable": true } }),
    )
    .edit(|vmi| {
        let disks = vmi["spec"]["domain"]["devices"]["disks"].as_array_mut();
        if let Some(last) = disks.and_then(|disks| disks.last_mut()) {
            *last = disk;
        }
        let status = json!({ "name": name, "target": "", "phase": phase,
            "hotplugVolume": { "attachPodName": "hp", "attachPodUID": "1" } });
        add_status(vmi, status);
    })
}

/// Adds a volume status to the VMI.
pub(crate) fn add_status(vmi: &mut Value, status: Value) {
    match &mut vmi["status"]["volumeStatus"] {
        Value::Array(all) => all.push(status),
        other => *other = json!([status]),
    }
}

/// A VMI with one permanent volume and no interface.
pub(crate) fn vmi_with_volume(name: &str) -> Vmi {
    Vmi::new(name, LauncherUser::Nonroot)
        .empty_disk("empty", "16Mi")
        .edit(|vmi| add_status(vmi, json!({ "name": "empty", "target": "vda" })))
}

/// Creates the image of a hotplugged volume in the pod.
pub(crate) fn put_image(pod: &Pod, name: &str) -> Result<()> {
    let path = pod.path(&format!("/var/run/kubevirt/hotplug-disks/{name}.img"));
    fs::write(&path, "HOTPLUGGED")?;
    fs::File::options()
        .write(true)
        .open(&path)?
        .set_len(8 * MIB)?;
    Ok(chown(path, Some(QEMU_UID), Some(QEMU_UID))?)
}

/// Waits for the agent, and until the notifications of its first reports have ended, so that later ones are about
/// devices.
pub(crate) async fn wait_for_agents_reports(fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    const QUIET_PERIOD: Duration = Duration::from_secs(2);
    fixture.wait_for_agent(vmi).await?;
    let is_quiet = async || {
        let before = fixture.handler.events().len();
        tokio::time::sleep(QUIET_PERIOD).await;
        (fixture.handler.events().len() == before).then_some(())
    };
    tests::wait_until("no notification for a while", BOOT_TIMEOUT, is_quiet).await
}

/// Waits until the guest has (`is_present`) or lacks a block device.
pub(crate) async fn wait_for_disk(
    fixture: &LauncherFixture,
    vmi: &Vmi,
    disk: &str,
    is_present: bool,
) -> Result<()> {
    let path = format!("/sys/class/block/{disk}/size");
    let has_expected_state = async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let read = fixture.commands.exec(vmi, "cat", &[&path]).await.ok()?;
        let size = read.std_out.trim() == "16384";
        (size == is_present).then_some(())
    };
    tests::wait_until(
        &format!("{disk} there={is_present} in the guest"),
        EVENT_TIMEOUT,
        has_expected_state,
    )
    .await
}
