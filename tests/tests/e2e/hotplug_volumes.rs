//! Hotplug of volumes: disks are attached and detached, and media of CD-ROM drives inserted and ejected.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::binaries::binary;
use tests::launcher_fixture::{EVENT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;

use crate::kubevirt_launcher_answers::expect_recorded_shape;
use crate::volume_hotplug_fixture::{
    add_status, hotplugged, put_image, vmi_with_volume, wait_for_agents_reports, wait_for_disk,
};

/// The disks of a domain, each as `TARGET ALIAS SERIAL`.
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

/// Waits for a notification with exactly these disks. Returns the number of events since `from`.
async fn wait_for_disks(
    fixture: &LauncherFixture,
    from: usize,
    expected: &[&str],
) -> Result<usize> {
    let matches = |event: &tests::emulated_virt_handler::Event| {
        let mut found = disks(event.domain());
        found.sort();
        !event.event_type().is_empty() && found == expected
    };
    fixture
        .handler
        .wait_for(&format!("{expected:?}"), from, EVENT_TIMEOUT, matches)
        .await?;
    // A superfluous notification would arrive in this time.
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok(fixture.handler.events().len() - from)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disks_are_attached_seen_by_the_guest_and_detached() -> Result<()> {
    let vmi = vmi_with_volume("hotplug");
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot_without_controller(&vmi).await?;
    wait_for_agents_reports(&fixture, &vmi).await?;

    let scsi = || json!({ "name": "one", "disk": { "bus": "scsi" }, "serial": "SerialOne" });
    // The running VM has no IO threads.
    let virtio = || json!({ "name": "two", "disk": { "bus": "virtio" }, "serial": "SerialTwo", "dedicatedIOThread": true });
    let first = hotplugged(vmi.clone(), "one", scsi(), "MountedToPod");
    let events = fixture.handler.events().len();
    fixture.commands.sync(&first).await?.accepted()?;
    ensure!(
        fixture.handler.events().len() == events,
        "a volume without an image changes nothing:\n{}",
        fixture.handler.history()
    );

    put_image(&fixture.pod, "one")?;
    fixture.commands.sync(&first).await?.accepted()?;
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
    fixture.commands.sync(&both).await?.accepted()?;
    let all = ["sda one SerialOne", "vda empty ", "vdb two SerialTwo"];
    ensure!(wait_for_disks(&fixture, events, &all).await? == 1);
    wait_for_disk(&fixture, &both, "vdb", true).await?;

    // Another volume on the target of the first one, and no second one.
    put_image(&fixture.pod, "three")?;
    let other = json!({ "name": "three", "disk": { "bus": "scsi" }, "serial": "SerialThree" });
    let replaced = hotplugged(vmi.clone(), "three", other, "MountedToPod");
    let events = fixture.handler.events().len();
    fixture.commands.sync(&both).await?.accepted()?;
    fixture.commands.sync(&replaced).await?.accepted()?;
    wait_for_disks(&fixture, events, &["sda three SerialThree", "vda empty "]).await?;
    wait_for_disk(&fixture, &vmi, "vdb", false).await?;
    wait_for_disk(&fixture, &vmi, "sda", true).await?;

    let events = fixture.handler.events().len();
    fixture.commands.sync(&vmi).await?.accepted()?;
    ensure!(wait_for_disks(&fixture, events, &["vda empty "]).await? == 1);
    wait_for_disk(&fixture, &vmi, "sda", false).await?;
    let events = fixture.handler.events().len();
    fixture.commands.sync(&vmi).await?.accepted()?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    ensure!(
        fixture.handler.events().len() == events,
        "a repeated sync changes nothing:\n{}",
        fixture.handler.history()
    );
    fixture.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn media_are_inserted_and_ejected() -> Result<()> {
    let drive = || json!({ "name": "cd", "cdrom": { "bus": "scsi" } });
    let empty = vmi_with_volume("media").edit(|vmi| {
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
    fixture.commands.sync(&inserted).await?.accepted()?;
    let read = async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let head = fixture
            .commands
            .exec(&inserted, "head", &["-c", "10", "/dev/sr0"]);
        Some(head.await.ok()?.std_out)
    };
    let has_expected_state = async || (read().await? == "HOTPLUGGED").then_some(());
    tests::wait_until("the medium in the guest", EVENT_TIMEOUT, has_expected_state).await?;
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
    fixture.commands.sync(&empty).await?.accepted()?;
    let file = source().await?;
    ensure!(file == "" || file.is_null(), "{file}");
    let is_detached = async || (read().await? != "HOTPLUGGED").then_some(());
    tests::wait_until("the drive to be empty", EVENT_TIMEOUT, is_detached).await?;
    fixture.end_vm(&empty).await
}

fn count_events(fixture: &LauncherFixture, reason: &str) -> usize {
    let events = fixture.handler.events();
    let matching = events
        .iter()
        .filter(|event| event.kubernetes_reason() == Some(reason));
    matching.count()
}

/// A paused guest cannot release a device: the sync succeeds, one event reports the pending detach, and the guest
/// releases the disk when it runs again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guest_that_keeps_a_disk_is_reported_and_asked_again() -> Result<()> {
    let vmi = vmi_with_volume("keeper");
    let disk = json!({ "name": "kept", "disk": { "bus": "virtio" } });
    let with_disk = hotplugged(vmi.clone(), "kept", disk, "MountedToPod");
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot_without_controller(&vmi).await?;
    fixture.wait_for_agent(&vmi).await?;
    put_image(&fixture.pod, "kept")?;
    fixture.commands.sync(&with_disk).await?.accepted()?;
    wait_for_disk(&fixture, &vmi, "vdb", true).await?;
    fixture.commands.pause(&vmi).await?.accepted()?;
    for _ in 0..2 {
        fixture.commands.sync(&vmi).await?.accepted()?;
        let domain = fixture.commands.domain().await?;
        ensure!(disks(&domain).contains(&"vdb kept ".to_owned()), "{domain}");
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    ensure!(
        count_events(&fixture, "DeviceDetachPending") == 1,
        "{}",
        fixture.handler.history()
    );
    let events = fixture.handler.events().len();
    fixture.commands.unpause(&vmi).await?.accepted()?;
    wait_for_disks(&fixture, events, &["vda empty "]).await?;
    wait_for_disk(&fixture, &vmi, "vdb", false).await?;
    fixture.commands.sync(&vmi).await?.accepted()?;
    fixture.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_contains_a_disk_without_a_free_port_and_unusable_images() -> Result<()> {
    const DISKS: usize = 8;
    let vmi = vmi_with_volume("full");
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot_without_controller(&vmi).await?;

    // QEMU refuses an image that another process has locked for writing; the VM and its other changes are not affected.
    let locked = json!({ "name": "empty2", "disk": { "bus": "scsi" } });
    let locked = hotplugged(vmi.clone(), "empty2", locked, "MountedToPod");
    let unusable = json!({ "name": "unusable", "disk": { "bus": "scsi" } });
    let locked = hotplugged(locked, "unusable", unusable, "MountedToPod");
    fs::create_dir(
        fixture
            .pod
            .path("/var/run/kubevirt/hotplug-disks/unusable.img"),
    )?;
    put_image(&fixture.pod, "usable")?;
    let usable = json!({ "name": "usable", "disk": { "bus": "scsi" } });
    let locked = hotplugged(locked, "usable", usable, "MountedToPod");
    put_image(&fixture.pod, "long")?;
    let long = json!({ "name": "long", "disk": { "bus": "scsi" }, "serial": "s".repeat(37) });
    let locked = hotplugged(locked, "long", long, "MountedToPod");
    let link = fixture
        .pod
        .path("/var/run/kubevirt/hotplug-disks/empty2.img");
    std::os::unix::fs::symlink("/var/run/libvirt/empty-disks/empty.qcow2", &link)?;
    for _ in 0..2 {
        let answer = fixture.commands.sync(&locked).await?;
        ensure!(
            !answer.success
                && answer
                    .message
                    .starts_with("2 changes were not made: attaching volume empty2: LibvirtError(")
                && answer
                    .message
                    .contains("; attaching volume long: LibvirtError(")
                && answer.message.contains("longer than 36 characters"),
            "{answer:?}"
        );
    }
    let domain = fixture.commands.domain().await?;
    ensure!(
        disks(&domain).contains(&"sdc usable ".to_owned()),
        "{domain}"
    );
    tokio::time::sleep(Duration::from_millis(300)).await;
    for (reason, count) in [("DeviceChangeFailed", 2), ("ChangeNotApplied", 1)] {
        ensure!(
            count_events(&fixture, reason) == count,
            "{reason}: {}",
            fixture.handler.history()
        );
    }
    fs::remove_file(link)?;
    fixture.commands.sync(&vmi).await?.accepted()?;

    let mut vmi_with_disks = vmi.clone();
    let mut refusal = None;
    for index in 0..DISKS {
        let name = format!("disk{index}");
        put_image(&fixture.pod, &name)?;
        let disk = json!({ "name": name, "disk": { "bus": "virtio" } });
        vmi_with_disks = hotplugged(vmi_with_disks, &name, disk, "MountedToPod");
        let answer = fixture.commands.sync(&vmi_with_disks).await?;
        if !answer.success {
            refusal = Some((index, answer.message));
            break;
        }
    }
    let (index, message) = refusal.context("all disks found a port")?;
    ensure!(index >= 3, "{index} disks were attached: {message}");
    ensure!(
        message.starts_with(&format!(
            "attaching volume disk{index}: LibvirtError(Code=1,"
        )) && message.contains("No more available PCI slots")
            && message.contains("no free PCIe root port"),
        "{message}"
    );
    ensure!(disks(&fixture.commands.domain().await?).len() == index + 1);
    fixture.end_vm(&vmi).await
}

/// Devices on the root complex cannot be hotplugged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vm_on_the_root_complex_takes_volumes_on_scsi_only() -> Result<()> {
    let vmi = vmi_with_volume("root").annotate("kubevirt.io/placePCIDevicesOnRootComplex", "true");
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot_without_controller(&vmi).await?;
    let mut vmi_with_disks = vmi.clone();
    for (name, bus) in [("one", "virtio"), ("two", "scsi")] {
        put_image(&fixture.pod, name)?;
        let disk = json!({ "name": name, "disk": { "bus": bus } });
        vmi_with_disks = hotplugged(vmi_with_disks, name, disk, "MountedToPod");
    }
    let answer = fixture.commands.sync(&vmi_with_disks).await?;
    ensure!(
        !answer.success
            && answer.message.starts_with("attaching volume one: ")
            && answer.message.contains("No more available PCI slots")
            && answer
                .message
                .contains("start the VM without the annotation"),
        "{answer:?}"
    );
    let domain = fixture.commands.domain().await?;
    ensure!(disks(&domain) == ["vda empty ", "sda two "], "{domain}");
    fixture.end_vm(&vmi).await
}

/// Switches the power of the slot off in which the guest sees its disk `vda`, if there is such a slot.
const EJECT_VDA: &str = "device=$(basename $(dirname $(readlink -f /sys/block/vda/device))); \
    for slot in /sys/bus/pci/slots/*; do \
        [ ! -e $slot/address ] || [ \"$(cat $slot/address)\" != \"${device%.*}\" ] || echo 0 >$slot/power; \
    done";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guest_cannot_eject_a_permanent_disk_from_v1_10_on() -> Result<()> {
    for (version, is_ejectable) in [("v1.9", true), ("v1.10", false)] {
        let vmi = vmi_with_volume("eject");
        let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
        prepared.pod.install_libvirt_hook()?;
        prepared
            .pod
            .install_hook_client_in_image(&binary("virt-hook")?)?;
        let arguments = ["--kubevirt-version", version];
        let fixture = prepared.start(&vmi, &arguments).await?;
        fixture.boot_without_controller(&vmi).await?;
        wait_for_agents_reports(&fixture, &vmi).await?;
        let ejected = fixture
            .commands
            .exec(&vmi, "sh", &["-c", EJECT_VDA])
            .await?;
        ensure!(ejected.exit_code == 0, "{version}: {ejected:?}");
        // The guest can always forget a device; one that was not ejected is found again.
        tokio::time::sleep(Duration::from_secs(6)).await;
        let rescan = ["-c", "echo 1 >/sys/bus/pci/rescan"];
        fixture.commands.exec(&vmi, "sh", &rescan).await?;
        let found = fixture
            .commands
            .exec(&vmi, "test", &["-e", "/sys/block/vda"])
            .await?;
        ensure!(
            (found.exit_code == 0) != is_ejectable,
            "{version}: {found:?}"
        );
        if !is_ejectable {
            // The free ports keep hotplug.
            put_image(&fixture.pod, "two")?;
            let disk = json!({ "name": "two", "disk": { "bus": "virtio" } });
            let both = hotplugged(vmi.clone(), "two", disk, "MountedToPod");
            fixture.commands.sync(&both).await?.accepted()?;
            wait_for_disk(&fixture, &vmi, "vdb", true).await?;
            fixture.commands.sync(&vmi).await?.accepted()?;
            wait_for_disk(&fixture, &vmi, "vdb", false).await?;
        }
        fixture.end_vm(&vmi).await?;
    }
    Ok(())
}
