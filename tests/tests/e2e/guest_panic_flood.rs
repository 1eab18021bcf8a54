//! A guest that panics without end.

use std::fs;
use std::os::unix::fs::chown;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tests::launcher_fixture::{BOOT_TIMEOUT, EVENT_TIMEOUT, PreparedPod};
use tests::pod::{LauncherUser, QEMU_UID};
use tests::vmi_builder::Vmi;
use tests::wait_until;

const CLAIM_DIRECTORY: &str = "/run/kubevirt-private/vmi-disks/boot";
/// A boot sector that writes 2 (the guest's crash kernel takes over) to the port of QEMU's panic device for ever:
/// `mov dx, 0x505; mov al, 2; out dx, al; jmp $-1`.
const PANIC_FOR_EVER: [u8; 8] = [0xba, 0x05, 0x05, 0xb0, 0x02, 0xee, 0xeb, 0xfd];
/// How long the guest does so.
const FLOOD_TIME: Duration = Duration::from_secs(10);

fn vmi() -> Vmi {
    let image =
        json!({ "hostDisk": { "path": format!("{CLAIM_DIRECTORY}/disk.img"), "type": "Disk" } });
    Vmi::new("flood", LauncherUser::Nonroot)
        .volume("boot", image)
        .edit(|vmi| {
            let domain = &mut vmi["spec"]["domain"];
            domain["devices"]["panicDevices"] = json!([{ "model": "isa" }]);
            domain["devices"]["disks"][0]["bootOrder"] = json!(1);
            domain["firmware"]
                .as_object_mut()
                .unwrap()
                .remove("kernelBoot");
        })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guest_that_panics_without_end_holds_up_nothing() -> Result<()> {
    let vmi = vmi();
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let image = prepared
        .pod
        .create_qemu_dir(CLAIM_DIRECTORY)?
        .join("disk.img");
    let mut sector = vec![0; 1 << 20];
    sector[..8].copy_from_slice(&PANIC_FOR_EVER);
    sector[510..512].copy_from_slice(&[0x55, 0xaa]);
    fs::write(&image, sector)?;
    chown(&image, Some(QEMU_UID), Some(QEMU_UID))?;
    let mut fixture = prepared.start(&vmi, &[]).await?;
    fixture.boot_without_controller(&vmi).await?;
    let handler = &fixture.handler;
    let panicked = |event: &tests::emulated_virt_handler::Event| {
        event.kubernetes_reason() == Some("GuestPanicked")
    };
    handler
        .wait_for("GuestPanicked", 0, BOOT_TIMEOUT, panicked)
        .await?;
    tokio::time::sleep(FLOOD_TIME).await;
    // libvirt's daemon is behind with its own queue; the launcher is not.
    fixture.commands.ping().await?;
    let before = handler.events();
    let alerts = before.iter().filter(|event| panicked(event)).count();
    assert_eq!(alerts, 1, "{}", handler.history());
    // Panics are passed on once a second.
    let expected = 2 * FLOOD_TIME.as_secs() as usize;
    assert!(before.len() < expected, "{} events", before.len());
    fixture.commands.kill(&vmi).await?.accepted()?;
    handler
        .wait_for_state("Shutoff/Destroyed", before.len(), EVENT_TIMEOUT)
        .await?;
    // virt-handler repeats the deletion, too, until libvirt's daemon has handled what it has received.
    let delete = async || fixture.commands.delete(&vmi).await.ok()?.accepted().ok();
    wait_until("the deletion", BOOT_TIMEOUT, delete).await?;
    fixture.expect_exit_code(0).await
}
