//! Volumes of a running VM: disks attached and detached, media of CD-ROM drives.

use std::fs;
use std::os::unix::fs::chown;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::launcher_fixture::{BOOT, EVENT, LauncherFixture};
use tests::pod::{LauncherUser, Pod};
use tests::vmi_builder::Vmi;

use crate::kubevirt_launcher_answers::expect_recorded_shape;

const QEMU: u32 = 107;
const MIB: u64 = 1 << 20;

/// A volume that virt-handler has mounted into the pod, with a disk of this kind.
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

fn add_status(vmi: &mut Value, status: Value) {
    match &mut vmi["status"]["volumeStatus"] {
        Value::Array(all) => all.push(status),
        other => *other = json!([status]),
    }
}

/// A VM with one permanent volume, and free ports for hotplug.
pub(crate) fn base(name: &str) -> Vmi {
    Vmi::new(name, LauncherUser::Nonroot)
        .annotate("kubevirt.io/pci-interface-slot-count", "4")
        .empty_disk("empty", "16Mi")
        .edit(|vmi| add_status(vmi, json!({ "name": "empty", "target": "vda" })))
}

pub(crate) fn put_image(pod: &Pod, name: &str) -> Result<()> {
    let path = pod.path(&format!("/var/run/kubevirt/hotplug-disks/{name}.img"));
    fs::write(&path, "HOTPLUGGED")?;
    fs::File::options()
        .write(true)
        .open(&path)?
        .set_len(8 * MIB)?;
    Ok(chown(path, Some(QEMU), Some(QEMU))?)
}

/// Waits for the agent, and until its first reports were notified, so that what follows comes from the devices.
pub(crate) async fn wait_for_agents_reports(fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    const QUIET: Duration = Duration::from_secs(2);
    fixture.wait_for_agent(vmi).await?;
    let quiet = async || {
        let before = fixture.handler.events().len();
        tokio::time::sleep(QUIET).await;
        (fixture.handler.events().len() == before).then_some(())
    };
    tests::until("no notification for a while", BOOT, quiet).await
}

/// Waits until the guest has, or no longer has, a block device.
pub(crate) async fn wait_for_disk(
    fixture: &LauncherFixture,
    vmi: &Vmi,
    disk: &str,
    there: bool,
) -> Result<()> {
    let path = format!("/sys/class/block/{disk}/size");
    let seen = async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let read = fixture.commands.exec(vmi, "cat", &[&path]).await.ok()?;
        let size = read.std_out.trim() == "16384";
        (size == there).then_some(())
    };
    tests::until(&format!("{disk} there={there} in the guest"), EVENT, seen).await
}

/// The disks in the last notification, as `TARGET ALIAS SERIAL`.
fn disks(domain: &Value) -> Vec<String> {
    let disks = domain["Spec"]["Devices"]["Disks"].as_array();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let describe = |disk: &Value| {
        format!(
            "{} {} {}",
            text(&disk["Target"]["Device"]),
            text(&disk["Alias"]["Name"]),
            text(&disk["Serial"])
        )
    };
    disks.into_iter().flatten().map(describe).collect()
}

/// Waits for a notification with exactly these disks, and returns how many domain events came since `from`.
async fn wait_for_disks(
    fixture: &LauncherFixture,
    from: usize,
    expected: &[&str],
) -> Result<usize> {
    let matches = |event: &tests::virt_handler::Event| {
        let mut found = disks(event.domain());
        found.sort();
        !event.event_type().is_empty() && found == expected
    };
    fixture
        .handler
        .wait_for(&format!("{expected:?}"), from, EVENT, matches)
        .await?;
    // A surplus notification would follow now.
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok(fixture.handler.events().len() - from)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disks_are_attached_seen_by_the_guest_and_detached() -> Result<()> {
    let plain = base("hotplug");
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &plain).await?;
    fixture.boot_without_controller(&plain).await?;
    wait_for_agents_reports(&fixture, &plain).await?;

    let scsi = || json!({ "name": "one", "disk": { "bus": "scsi" }, "serial": "SerialOne" });
    let virtio = || json!({ "name": "two", "disk": { "bus": "virtio" }, "serial": "SerialTwo" });
    let first = hotplugged(plain.clone(), "one", scsi(), "MountedToPod");
    let events = fixture.handler.events().len();
    fixture.commands.sync(&first).await?.ok()?;
    ensure!(
        fixture.handler.events().len() == events,
        "a volume without an image changes nothing:\n{}",
        fixture.handler.history()
    );

    put_image(&fixture.pod, "one")?;
    fixture.commands.sync(&first).await?.ok()?;
    let with_one = ["sda one SerialOne", "vda empty "];
    ensure!(wait_for_disks(&fixture, events, &with_one).await? == 1);
    wait_for_disk(&fixture, &first, "sda", true).await?;
    expect_recorded_shape(&fixture, "08-hotplug-slots4", 5, &[]).await?;
    let head = fixture
        .commands
        .exec(&first, "head", &["-c", "10", "/dev/sda"])
        .await?;
    ensure!(head.std_out == "HOTPLUGGED", "{head:?}");

    put_image(&fixture.pod, "two")?;
    let both = hotplugged(first.clone(), "two", virtio(), "MountedToPod");
    let events = fixture.handler.events().len();
    fixture.commands.sync(&both).await?.ok()?;
    let all = ["sda one SerialOne", "vda empty ", "vdb two SerialTwo"];
    ensure!(wait_for_disks(&fixture, events, &all).await? == 1);
    wait_for_disk(&fixture, &both, "vdb", true).await?;

    let events = fixture.handler.events().len();
    fixture.commands.sync(&both).await?.ok()?;
    fixture.commands.sync(&plain).await?.ok()?;
    // The two detaches are notified together or one after the other.
    ensure!(matches!(
        wait_for_disks(&fixture, events, &["vda empty "]).await?,
        1 | 2
    ));
    wait_for_disk(&fixture, &plain, "sda", false).await?;
    wait_for_disk(&fixture, &plain, "vdb", false).await?;
    let events = fixture.handler.events().len();
    fixture.commands.sync(&plain).await?.ok()?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    ensure!(
        fixture.handler.events().len() == events,
        "a repeated sync changes nothing:\n{}",
        fixture.handler.history()
    );
    fixture.end_vm(&plain).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn media_are_inserted_and_ejected() -> Result<()> {
    let drive = || json!({ "name": "cd", "cdrom": { "bus": "scsi" } });
    let empty = base("media").edit(|vmi| {
        let disks = vmi["spec"]["domain"]["devices"]["disks"].as_array_mut();
        disks.into_iter().for_each(|disks| disks.push(drive()));
    });
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &empty).await?;
    fixture.boot_without_controller(&empty).await?;
    fixture.wait_for_agent(&empty).await?;
    put_image(&fixture.pod, "cd")?;
    let inserted = empty.clone().edit(|vmi| {
        let volumes = vmi["spec"]["volumes"].as_array_mut();
        let volume = json!({ "name": "cd", "persistentVolumeClaim": { "claimName": "cd", "hotpluggable": true } });
        volumes.into_iter().for_each(|volumes| volumes.push(volume.clone()));
        add_status(
            vmi,
            json!({ "name": "cd", "target": "sda", "phase": "MountedToPod", "hotplugVolume": {} }),
        );
    });
    fixture.commands.sync(&inserted).await?.ok()?;
    let read = async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let head = fixture
            .commands
            .exec(&inserted, "head", &["-c", "10", "/dev/sr0"]);
        Some(head.await.ok()?.std_out)
    };
    let seen = async || (read().await? == "HOTPLUGGED").then_some(());
    tests::until("the medium in the guest", EVENT, seen).await?;
    let source = async || -> Result<Value> {
        let domain = fixture.commands.domain().await?;
        let disks = domain["Spec"]["Devices"]["Disks"].as_array().cloned();
        let drive = disks
            .into_iter()
            .flatten()
            .find(|disk| disk["Device"] == "cdrom");
        let drive = drive.context("no drive")?;
        Ok(drive["Source"]["File"].clone())
    };
    ensure!(source().await? == "/var/run/kubevirt/hotplug-disks/cd.img");
    fixture.commands.sync(&empty).await?.ok()?;
    let file = source().await?;
    ensure!(file == "" || file.is_null(), "{file}");
    let is_detached = async || (read().await? != "HOTPLUGGED").then_some(());
    tests::until("the drive to be empty", EVENT, is_detached).await?;
    fixture.end_vm(&empty).await
}

fn reports(fixture: &LauncherFixture, reason: &str) -> usize {
    let events = fixture.handler.events();
    let of_reason = events
        .iter()
        .filter(|event| event.kubernetes_reason() == Some(reason));
    of_reason.count()
}

/// A paused guest cannot release a device: the sync succeeds, one event tells of it, and the guest releases the disk when it
/// runs again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guest_that_keeps_a_disk_is_reported_and_asked_again() -> Result<()> {
    let plain = base("keeper");
    let disk = json!({ "name": "kept", "disk": { "bus": "virtio" } });
    let with_disk = hotplugged(plain.clone(), "kept", disk, "MountedToPod");
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &plain).await?;
    fixture.boot_without_controller(&plain).await?;
    fixture.wait_for_agent(&plain).await?;
    put_image(&fixture.pod, "kept")?;
    fixture.commands.sync(&with_disk).await?.ok()?;
    wait_for_disk(&fixture, &plain, "vdb", true).await?;
    fixture.commands.pause(&plain).await?.ok()?;
    for _ in 0..2 {
        fixture.commands.sync(&plain).await?.ok()?;
        let domain = fixture.commands.domain().await?;
        ensure!(disks(&domain).contains(&"vdb kept ".to_owned()), "{domain}");
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    ensure!(
        reports(&fixture, "DeviceDetachPending") == 1,
        "{}",
        fixture.handler.history()
    );
    let events = fixture.handler.events().len();
    fixture.commands.unpause(&plain).await?.ok()?;
    wait_for_disks(&fixture, events, &["vda empty "]).await?;
    wait_for_disk(&fixture, &plain, "vdb", false).await?;
    fixture.commands.sync(&plain).await?.ok()?;
    fixture.end_vm(&plain).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_contains_a_disk_without_a_free_port_and_unusable_images() -> Result<()> {
    const DISKS: usize = 8;
    let plain = base("full");
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &plain).await?;
    fixture.boot_without_controller(&plain).await?;

    // An image that another process writes to, as QEMU's lock says, is refused by QEMU; the VM is not affected.
    let locked = json!({ "name": "empty2", "disk": { "bus": "scsi" } });
    let locked = hotplugged(plain.clone(), "empty2", locked, "MountedToPod");
    let link = fixture
        .pod
        .path("/var/run/kubevirt/hotplug-disks/empty2.img");
    std::os::unix::fs::symlink("/var/run/libvirt/empty-disks/empty.qcow2", &link)?;
    let answer = fixture.commands.sync(&locked).await?;
    ensure!(
        !answer.success
            && answer
                .message
                .starts_with("attaching volume empty2: LibvirtError("),
        "{answer:?}"
    );
    fs::remove_file(link)?;

    let mut vmi = plain.clone();
    let mut refused = None;
    for index in 0..DISKS {
        let name = format!("disk{index}");
        put_image(&fixture.pod, &name)?;
        let disk = json!({ "name": name, "disk": { "bus": "virtio" } });
        vmi = hotplugged(vmi, &name, disk, "MountedToPod");
        let answer = fixture.commands.sync(&vmi).await?;
        if !answer.success {
            refused = Some((index, answer.message));
            break;
        }
    }
    let (index, message) = refused.context("all disks found a port")?;
    ensure!(index >= 4, "{index} disks were attached: {message}");
    ensure!(
        message.starts_with(&format!(
            "attaching volume disk{index}: LibvirtError(Code=1,"
        )) && message.contains("No more available PCI slots")
            && message.contains("no free PCIe root port"),
        "{message}"
    );
    ensure!(disks(&fixture.commands.domain().await?).len() == index + 1);
    fixture.end_vm(&plain).await
}
