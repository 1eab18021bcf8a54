//! Disks on claims, and images that come as image volumes.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tests::guest::{CONTAINER_DISK_MARK, Guest};
use tests::pod::User;
use tests::scenario::{EVENT, Stage};
use tests::vmi::Vmi;

const QEMU: u32 = 107;
const CLAIM: &str = "/run/kubevirt-private/vmi-disks/data";
const MIB: u64 = 1 << 20;

fn describes(facts: &[String], disk: &str, bytes: u64, mark: &str) -> bool {
    let start = format!("disk {disk}: bytes={bytes} ");
    let mut told = facts.iter().filter(|fact| fact.starts_with(&start));
    told.any(|fact| fact.contains(mark))
}

/// A claim as virt-handler sends it, that has grown from 8 to 24 MiB, and whose changes are to be tracked.
fn tracked(user: User) -> Vmi {
    let image = json!({ "hostDisk": {
        "path": format!("{CLAIM}/disk.img"), "type": "DiskOrCreate", "capacity": "24Mi", "shared": false,
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
    chown(directory, Some(QEMU), Some(QEMU))?;
    Ok(chown(image, Some(QEMU), Some(QEMU))?)
}

async fn tracks(user: User, bitmaps: &str) -> Result<()> {
    let vmi = tracked(user);
    let stage = Stage::set(user)?;
    put_image(&stage.pod.path(CLAIM))?;
    let scene = stage.start(&vmi, &[]).await?;
    let facts = scene.boot_to_ready(&vmi).await?;
    assert!(describes(&facts, "vda", 24 * MIB, "THE-DATA"), "{facts:#?}");
    let data = fs::read(scene.pod.path(CLAIM).join("disk.img"))?;
    assert_eq!(
        (data.len() as u64, &data[..8]),
        (24 * MIB, b"THE-DATA".as_slice())
    );
    let image = scene.pod.path(bitmaps).join("data.qcow2");
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
    scene.close(&vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_grew_and_is_tracked() -> Result<()> {
    tracks(User::Nonroot, "/run/kubevirt-private/libvirt/qemu/cbt").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_grew_and_is_tracked_as_root() -> Result<()> {
    tracks(User::Root, "/var/lib/libvirt/qemu/cbt").await
}

/// A claim of this size, whose image has 8 MiB.
fn claimed(vmi: Vmi, size: &str) -> Vmi {
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
async fn a_claim_that_grows_while_the_guest_runs() -> Result<()> {
    let image = json!({ "hostDisk": {
        "path": format!("{CLAIM}/disk.img"), "type": "DiskOrCreate", "capacity": "8Mi", "shared": false,
    } });
    let vmi = Vmi::new("growing", User::Nonroot).volume("data", image);
    let vmi = claimed(vmi, "8Mi");
    let stage = Stage::set(User::Nonroot)?;
    put_image(&stage.pod.path(CLAIM))?;
    let scene = stage.start(&vmi, &[]).await?;
    let facts = scene.boot_to_ready(&vmi).await?;
    assert!(describes(&facts, "vda", 8 * MIB, "THE-DATA"), "{facts:#?}");
    scene.agent(&vmi).await?;
    let vmi = claimed(vmi, "24Mi");
    scene.commands.sync(&vmi).await?.ok()?;
    let grown = async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let size = scene.commands.exec(&vmi, "cat", &["/sys/block/vda/size"]);
        size.await
            .is_ok_and(|done| done.std_out.trim() == "49152")
            .then_some(())
    };
    tests::until("the guest to see 24 MiB", EVENT, grown).await?;
    let data = fs::read(scene.pod.path(CLAIM).join("disk.img"))?;
    assert_eq!(
        (data.len() as u64, &data[..8]),
        (24 * MIB, b"THE-DATA".as_slice())
    );
    scene.close(&vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_in_image_volumes() -> Result<()> {
    let vmi = Vmi::new("imagevolumes", User::Nonroot)
        .container_disk("image")
        .edit(|vmi| vmi["status"] = json!({ "runtimeUser": QEMU }));
    let stage = Stage::set(User::Nonroot)?;
    let links = stage.pod.path("/run/kubevirt/container-disks");
    let boot = stage.pod.path("/run/kubevirt-kernel-boot/boot");
    fs::create_dir_all(boot.parent().context("no parent")?)?;
    fs::rename(links.join("kernel-boot"), &boot)?;
    let disk = stage.pod.path("/run/kubevirt-image-volume/disk_0/disk");
    fs::create_dir_all(&disk)?;
    Guest::prepare()?.install_container_disk(&links, 0)?;
    fs::rename(links.join("disk_0.img"), disk.join("fedora.qcow2"))?;
    // What leads out of the image is looked for in it.
    symlink("/boot/vmlinuz", boot.join("kernel"))?;
    let vmi = vmi.edit(|vmi| {
        vmi["spec"]["domain"]["firmware"]["kernelBoot"]["container"]["kernelPath"] =
            json!("/boot/kernel");
    });
    let scene = stage.start(&vmi, &["--image-volume"]).await?;
    let facts = scene.boot_to_ready(&vmi).await?;
    assert!(
        describes(&facts, "vda", 16 * MIB, CONTAINER_DISK_MARK),
        "{facts:#?}"
    );
    scene.close(&vmi).await
}
