//! Disks on PersistentVolumeClaims that have grown or grow while the VM runs, and changed block tracking.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tests::launcher_fixture::{EVENT_TIMEOUT, PreparedPod};
use tests::pod::{LauncherUser, QEMU_UID};
use tests::vmi_builder::Vmi;

const CLAIM_DIRECTORY: &str = "/run/kubevirt-private/vmi-disks/data";
pub(super) const MIB: u64 = 1 << 20;

pub(super) fn has_disk_report(reports: &[String], disk: &str, bytes: u64, mark: &str) -> bool {
    let start = format!("disk {disk}: bytes={bytes} ");
    let mut matching = reports.iter().filter(|report| report.starts_with(&start));
    matching.any(|report| report.contains(mark))
}

/// A VMI with a claim that has grown from 8 to 24 MiB, and with changed block tracking.
fn vmi_with_tracked_claim(user: LauncherUser) -> Vmi {
    let image = json!({ "hostDisk": {
        "path": format!("{CLAIM_DIRECTORY}/disk.img"), "type": "DiskOrCreate", "capacity": "24Mi", "shared": false,
    } });
    Vmi::new("tracked", user).volume("data", image).edit(|vmi| {
        vmi["status"]["changedBlockTracking"] = json!({ "state": "Initializing" });
        vmi["status"]["volumeStatus"] = json!([{
            "name": "data", "target": "vda",
            "persistentVolumeClaimInfo": {
                "filesystemOverhead": "0", "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
                "capacity": { "storage": "24Mi" }, "requests": { "storage": "24Mi" },
            },
        }]);
    })
}

fn put_image(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)?;
    let image = directory.join("disk.img");
    fs::write(&image, "THE-DATA")?;
    fs::File::options()
        .write(true)
        .open(&image)?
        .set_len(8 * MIB)?;
    chown(directory, Some(QEMU_UID), Some(QEMU_UID))?;
    Ok(chown(image, Some(QEMU_UID), Some(QEMU_UID))?)
}

async fn check_tracking(user: LauncherUser, bitmaps: &str) -> Result<()> {
    let vmi = vmi_with_tracked_claim(user);
    let prepared = PreparedPod::create(user)?;
    put_image(&prepared.pod.path(CLAIM_DIRECTORY))?;
    let fixture = prepared.start(&vmi, &[]).await?;
    let reports = fixture.boot_and_read_reports(&vmi).await?;
    assert!(
        has_disk_report(&reports, "vda", 24 * MIB, "THE-DATA"),
        "{reports:#?}"
    );
    let data = fs::read(fixture.pod.path(CLAIM_DIRECTORY).join("disk.img"))?;
    assert_eq!(
        (data.len() as u64, &data[..8]),
        (24 * MIB, b"THE-DATA".as_slice())
    );
    let image = fixture.pod.path(bitmaps).join("data.qcow2");
    let information = Command::new("qemu-img")
        .args(["info", "-U"])
        .arg(&image)
        .output()?;
    let information = String::from_utf8(information.stdout)?;
    ensure!(
        information.contains("data file raw: true"),
        "{}: {information}",
        image.display()
    );
    fixture.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grown_claim_is_resized_and_tracked() -> Result<()> {
    check_tracking(
        LauncherUser::Nonroot,
        "/run/kubevirt-private/libvirt/qemu/cbt",
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grown_claim_is_resized_and_tracked_as_root() -> Result<()> {
    check_tracking(LauncherUser::Root, "/var/lib/libvirt/qemu/cbt").await
}

/// The VMI with this size of its claim.
fn with_claim_size(vmi: Vmi, size: &str) -> Vmi {
    vmi.edit(|vmi| {
        vmi["status"]["volumeStatus"] = json!([{
            "name": "data", "target": "vda",
            "persistentVolumeClaimInfo": {
                "filesystemOverhead": "0", "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
                "capacity": { "storage": size }, "requests": { "storage": size },
            },
        }]);
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_grows_is_resized_in_the_running_guest() -> Result<()> {
    let image = json!({ "hostDisk": {
        "path": format!("{CLAIM_DIRECTORY}/disk.img"), "type": "DiskOrCreate", "capacity": "8Mi", "shared": false,
    } });
    let vmi = Vmi::new("growing", LauncherUser::Nonroot).volume("data", image);
    let vmi = with_claim_size(vmi, "8Mi");
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    put_image(&prepared.pod.path(CLAIM_DIRECTORY))?;
    let fixture = prepared.start(&vmi, &[]).await?;
    let reports = fixture.boot_and_read_reports(&vmi).await?;
    assert!(
        has_disk_report(&reports, "vda", 8 * MIB, "THE-DATA"),
        "{reports:#?}"
    );
    fixture.wait_for_agent(&vmi).await?;
    let vmi = with_claim_size(vmi, "24Mi");
    fixture.commands.sync(&vmi).await?.accepted()?;
    let has_new_size = async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let size = fixture.commands.exec(&vmi, "cat", &["/sys/block/vda/size"]);
        size.await
            .is_ok_and(|done| done.std_out.trim() == "49152")
            .then_some(())
    };
    tests::wait_until("the guest to see 24 MiB", EVENT_TIMEOUT, has_new_size).await?;
    let data = fs::read(fixture.pod.path(CLAIM_DIRECTORY).join("disk.img"))?;
    assert_eq!(
        (data.len() as u64, &data[..8]),
        (24 * MIB, b"THE-DATA".as_slice())
    );
    fixture.end_vm(&vmi).await
}
