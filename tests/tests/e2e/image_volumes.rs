//! Container disks that the kubelet mounts as image volumes.

use std::fs;
use std::os::unix::fs::symlink;

use anyhow::{Context, Result};
use serde_json::json;
use tests::guest_image::{CONTAINER_DISK_MARK, Guest};
use tests::launcher_fixture::PreparedPod;
use tests::pod::{LauncherUser, QEMU_UID};
use tests::vmi_builder::Vmi;

use super::pvc_expansion_and_block_tracking::{MIB, has_disk_report};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn image_volumes_are_used_as_container_disks() -> Result<()> {
    let vmi = Vmi::new("imagevolumes", LauncherUser::Nonroot)
        .container_disk("image")
        .edit(|vmi| vmi["status"] = json!({ "runtimeUser": QEMU_UID }));
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let links = prepared.pod.path("/run/kubevirt/container-disks");
    let boot = prepared.pod.path("/run/kubevirt-kernel-boot/boot");
    fs::create_dir_all(boot.parent().context("no parent")?)?;
    fs::rename(links.join("kernel-boot"), &boot)?;
    let disk = prepared.pod.path("/run/kubevirt-image-volume/disk_0/disk");
    fs::create_dir_all(&disk)?;
    Guest::prepare()?.install_container_disk(&links, 0)?;
    fs::rename(links.join("disk_0.img"), disk.join("fedora.qcow2"))?;
    // An absolute link is resolved inside the image.
    symlink("/boot/vmlinuz", boot.join("kernel"))?;
    let vmi = vmi.edit(|vmi| {
        vmi["spec"]["domain"]["firmware"]["kernelBoot"]["container"]["kernelPath"] =
            json!("/boot/kernel");
    });
    let fixture = prepared.start(&vmi, &["--image-volume"]).await?;
    let reports = fixture.boot_and_read_reports(&vmi).await?;
    assert!(
        has_disk_report(&reports, "vda", 16 * MIB, CONTAINER_DISK_MARK),
        "{reports:#?}"
    );
    fixture.end_vm(&vmi).await
}
