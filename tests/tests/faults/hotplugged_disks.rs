//! Hotplugged disks of the VM under test: their images, and the syncs that attach and detach them.

use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::emulated_virt_handler::{Answer, Commands};
use tests::pod::Pod;
use tests::pod::QEMU_UID;
use tests::vmi_builder::Vmi;

const HOTPLUG_DIRECTORY: &str = "/var/run/kubevirt/hotplug-disks";
const OVERLAY_DIRECTORY: &str = "/var/run/kubevirt-private/libvirt/qemu/cbt";
/// The first three bytes of a qcow2 image.
const QCOW2_MAGIC: &str = "QFI";

/// Adds a permanent volume: without one, the launcher would treat hotplugged volumes as permanent.
pub(crate) fn with_permanent_disk(vmi: Vmi) -> Vmi {
    vmi.annotate("kubevirt.io/pci-interface-slot-count", "4")
        .empty_disk("empty", "16Mi")
        .edit(|vmi| {
            vmi["status"]["volumeStatus"] = json!([{ "name": "empty", "target": "vda" }]);
        })
}

/// Creates the images of the disks `hot`, `tracked` and `used`, a qcow2 image `foreign`, a directory instead of the
/// image of `wrong`, and an overlay of `tracked` that is not an image.
pub(crate) fn put_images(pod: &Pod) -> Result<()> {
    let foreign = pod.path(&format!("{HOTPLUG_DIRECTORY}/foreign.img"));
    let status = Command::new("qemu-img")
        .args(["create", "-q", "-f", "qcow2"])
        .arg(&foreign)
        .arg("8M")
        .status()
        .context("qemu-img")?;
    ensure!(status.success(), "qemu-img: {status}");
    let tracked = pod.path(&format!("{HOTPLUG_DIRECTORY}/tracked.img"));
    fs::File::create(&tracked)?.set_len(8 << 20)?;
    let overlays = pod.path(OVERLAY_DIRECTORY);
    fs::create_dir_all(&overlays)?;
    let overlay = overlays.join("tracked.qcow2");
    fs::write(&overlay, "no image")?;
    let private = pod.path("/var/run/kubevirt-private");
    let parents = overlays.ancestors().take_while(|path| *path != private);
    for path in parents.chain([&*foreign, &*tracked, &*overlay]) {
        chown(path, Some(QEMU_UID), Some(QEMU_UID))?;
    }
    let used = "/var/run/libvirt/empty-disks/empty.qcow2";
    std::os::unix::fs::symlink(used, pod.path(&format!("{HOTPLUG_DIRECTORY}/used.img")))?;
    fs::create_dir(pod.path(&format!("{HOTPLUG_DIRECTORY}/wrong.img")))?;
    let path = pod.path(&format!("{HOTPLUG_DIRECTORY}/hot.img"));
    fs::File::create(&path)?.set_len(8 << 20)?;
    Ok(chown(path, Some(QEMU_UID), Some(QEMU_UID))?)
}

fn with_disks(vmi: &Vmi, names: &[&str], bus: &str) -> Vmi {
    let mut vmi = vmi.clone();
    for name in names {
        let claim = json!({ "claimName": name, "hotpluggable": true });
        vmi = vmi
            .volume(name, json!({ "persistentVolumeClaim": claim }))
            .edit(|vmi| {
                let disks = vmi["spec"]["domain"]["devices"]["disks"].as_array_mut();
                if let Some(last) = disks.and_then(|disks| disks.last_mut()) {
                    last["disk"]["bus"] = json!(bus);
                }
                let status = json!({ "name": name, "target": "", "phase": "MountedToPod",
                    "hotplugVolume": { "attachPodName": "hp", "attachPodUID": "1" } });
                if let Some(all) = vmi["status"]["volumeStatus"].as_array_mut() {
                    all.push(status);
                }
            });
    }
    vmi
}

/// The names of the domain's disks.
async fn disk_names(commands: &Commands) -> Result<Vec<String>> {
    let domain = commands.domain().await?;
    let disks = domain["Spec"]["Devices"]["Disks"].as_array();
    let name = |disk: &Value| disk["Alias"]["Name"].as_str().map(str::to_owned);
    Ok(disks.context("no disks")?.iter().filter_map(name).collect())
}

/// A sync with or without the disk `hot`. A sync that succeeds must have attached or detached the disk.
pub(crate) async fn sync_disk(commands: &Commands, vmi: &Vmi, attached: bool) -> Result<Answer> {
    let names: &[&str] = if attached { &["hot"] } else { &[] };
    let answer = commands.sync(&with_disks(vmi, names, "virtio")).await?;
    if answer.success {
        let disk_names = disk_names(commands).await?;
        let is_attached = disk_names.iter().any(|name| name == "hot");
        ensure!(
            is_attached == attached,
            "the domain has the disks {disk_names:?}"
        );
    }
    Ok(answer)
}

/// Syncs with one disk each, whose image is missing, is a directory, or is used by another disk: no disk is attached.
pub(crate) async fn sync_unusable_disks(commands: &Commands, vmi: &Vmi) -> Result<Answer> {
    for (name, is_error) in [("missing", false), ("wrong", false), ("used", true)] {
        let answer = commands.sync(&with_disks(vmi, &[name], "scsi")).await?;
        ensure!(answer.success != is_error, "{name}: {answer:?}");
        ensure!(
            answer.success
                || answer
                    .message
                    .starts_with("attaching volume used: LibvirtError("),
            "{name}: {answer:?}"
        );
        ensure!(disk_names(commands).await? == ["empty"], "{name}");
    }
    Ok(commands.sync(vmi).await?)
}

/// A sync without the disk `hot`, which the guest does not release.
pub(crate) async fn sync_without_kept_disk(commands: &Commands, vmi: &Vmi) -> Result<Answer> {
    let answer = commands.sync(vmi).await?;
    let disk_names = disk_names(commands).await?;
    ensure!(
        disk_names == ["empty", "hot"],
        "the domain has the disks {disk_names:?}"
    );
    Ok(answer)
}

/// Syncs with a qcow2 image, which is attached as raw data as KubeVirt states, so that no backing file is opened, and
/// with an overlay that is not an image, which is refused.
pub(crate) async fn sync_foreign_images(commands: &Commands, vmi: &Vmi) -> Result<Answer> {
    commands
        .sync(&with_disks(vmi, &["foreign"], "scsi"))
        .await?
        .accepted()?;
    wait_for_head(commands, vmi, QCOW2_MAGIC).await?;
    commands.sync(vmi).await?.accepted()?;
    let tracked = with_disks(vmi, &["tracked"], "scsi")
        .edit(|vmi| vmi["status"]["changedBlockTracking"] = json!({ "state": "Enabled" }));
    let answer = commands.sync(&tracked).await?;
    let refusal = "attaching volume tracked: LibvirtError(";
    ensure!(
        !answer.success && answer.message.starts_with(refusal) && answer.message.contains("qcow2"),
        "{answer:?}"
    );
    ensure!(
        disk_names(commands).await? == ["empty"],
        "an unusable disk is there"
    );
    Ok(commands.sync(vmi).await?)
}

/// Waits until the guest has the attached disk, and the disk begins with `head`.
async fn wait_for_head(commands: &Commands, vmi: &Vmi, head: &str) -> Result<()> {
    let deadline = Instant::now() + tests::launcher_fixture::EVENT_TIMEOUT;
    let count = head.len().to_string();
    loop {
        let arguments = ["-c", &count, "/dev/sda"];
        let read = commands.exec(vmi, "head", &arguments).await;
        if read.is_ok_and(|output| output.std_out == head) {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "the guest's disk has other bytes"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
