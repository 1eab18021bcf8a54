//! Hotplugged disks: detach from the running VM, guests that do not release a disk, and a volume without an image.

use std::time::Duration;

use libvirt::fake::{Call, FakeDaemon};
use libvirt::{Event, XmlKind, code, origin};
use serde_json::{Value, json};
use virt_launcher::manager::CommandSuccess;

use crate::support::test_launcher::{DOMAIN, TestLauncher, domain_xml, sync_vmi, vmi_json};

/// A VMI with a hotplugged volume in this phase. Its disk is part of the domain from the start, since no permanent
/// volume is known.
fn vmi_with_volume(phase: &str) -> Value {
    let mut vmi = vmi_json();
    vmi["spec"]["volumes"] = json!([{"name": "Data", "persistentVolumeClaim": {"claimName": "x", "hotpluggable": true}}]);
    vmi["spec"]["domain"]["devices"]["disks"] =
        json!([{"name": "Data", "disk": {"bus": "scsi"}, "serial": "CaseKept"}]);
    vmi["status"]["volumeStatus"] = json!([
        {"name": "root"},
        {"name": "Data", "target": "sda", "phase": phase, "hotplugVolume": {"attachPodName": "hp"}}
    ]);
    vmi
}

/// Whether the running and the persistent configuration have the disk.
fn has_disk(launcher: &TestLauncher) -> (bool, bool) {
    let has_disk = |kind| domain_xml(launcher, kind).contains("<target bus=\"scsi\" dev=\"sda\"");
    (has_disk(XmlKind::Active), has_disk(XmlKind::Inactive))
}

#[tokio::test(flavor = "multi_thread")]
async fn hotplugged_disk_is_detached_from_the_running_and_the_defined_domain() {
    let launcher = TestLauncher::new().await;
    sync_vmi(&launcher, &vmi_with_volume("Ready"))
        .await
        .unwrap();
    assert_eq!(
        has_disk(&launcher),
        (true, true),
        "{}",
        domain_xml(&launcher, XmlKind::Active)
    );
    let before = launcher.notifications_until("Running").await.len();
    let detached = vmi_with_volume("Detaching");
    assert_eq!(
        sync_vmi(&launcher, &detached).await.unwrap(),
        CommandSuccess::Changed
    );
    assert_eq!(has_disk(&launcher), (false, false));
    let notifications = launcher.notifications(before + 1).await;
    let new = &notifications[before..];
    assert!(
        new.len() == 1 && new[0].starts_with("MODIFIED"),
        "libvirt's two events make one state: {new:?}"
    );
    assert_eq!(
        sync_vmi(&launcher, &detached).await.unwrap(),
        CommandSuccess::Unchanged
    );
    assert_eq!(launcher.fake.count(Call::DetachDevice), 1);
    assert_eq!(launcher.handler.notifications().len(), notifications.len());
}

/// Changes are made as long as virt-handler repeats the sync.
#[tokio::test(flavor = "multi_thread")]
async fn change_is_made_however_long_the_sync_took_before() {
    let launcher = TestLauncher::new().await;
    sync_vmi(&launcher, &vmi_with_volume("Ready"))
        .await
        .unwrap();
    launcher.fake.io_error(DOMAIN, "ua-Data");
    launcher.notifications_until("Paused").await;
    launcher
        .fake
        .delay(Call::Resume, Duration::from_millis(8100));
    sync_vmi(&launcher, &vmi_with_volume("Detaching"))
        .await
        .unwrap();
    assert_eq!(launcher.fake.count(Call::Resume), 1);
    assert_eq!(has_disk(&launcher), (false, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_that_keeps_a_disk_is_reported_once_and_asked_again() {
    let launcher = TestLauncher::new().await;
    sync_vmi(&launcher, &vmi_with_volume("Ready"))
        .await
        .unwrap();
    launcher.fake.keep_devices(DOMAIN, true);
    let detached = vmi_with_volume("Detaching");
    for _ in 0..3 {
        sync_vmi(&launcher, &detached).await.unwrap();
        assert_eq!(has_disk(&launcher), (true, false));
    }
    // The first request changes both configurations. Later ones fail for the persistent configuration, and are repeated
    // for the running one.
    assert_eq!(launcher.fake.count(Call::DetachDevice), 1 + 2 * 2);
    let notifications = launcher
        .notifications_until("EVENT DeviceDetachPending")
        .await;
    let reports = notifications
        .iter()
        .filter(|line| line.contains("DeviceDetachPending"));
    assert_eq!(reports.count(), 1, "{notifications:#?}");
    launcher.fake.keep_devices(DOMAIN, false);
    assert_eq!(has_disk(&launcher), (false, false));
    assert_eq!(
        sync_vmi(&launcher, &detached).await.unwrap(),
        CommandSuccess::Unchanged
    );
}

/// libvirt waits 5 s for each such device, so that all other changes are made first.
#[tokio::test(flavor = "multi_thread")]
async fn device_that_the_guest_keeps_is_detached_last() {
    let vmi_with_drive = |phase: &str| {
        let mut vmi = vmi_with_volume(phase);
        let drive = json!({"name": "Cd", "cdrom": {"bus": "sata"}});
        let claim = json!({"name": "Cd", "persistentVolumeClaim": {"claimName": "y", "hotpluggable": true}});
        let status = json!({"name": "Cd", "target": "sdb", "phase": "Ready", "hotplugVolume": {"attachPodName": "hp"}});
        for (list, entry) in [
            ("/spec/domain/devices/disks", drive),
            ("/spec/volumes", claim),
            ("/status/volumeStatus", status),
        ] {
            let list = vmi.pointer_mut(list).unwrap().as_array_mut();
            list.unwrap().push(entry);
        }
        vmi
    };
    let launcher = TestLauncher::new().await;
    sync_vmi(&launcher, &vmi_with_drive("Ready")).await.unwrap();
    launcher.fake.keep_devices(DOMAIN, true);
    sync_vmi(&launcher, &vmi_with_drive("Detaching"))
        .await
        .unwrap();
    let before = launcher.fake.calls().len();
    let mut ejected = vmi_with_drive("Detaching");
    for list in ["/spec/volumes", "/status/volumeStatus"] {
        let list = ejected.pointer_mut(list).unwrap().as_array_mut();
        list.unwrap().retain(|entry| entry["name"] != "Cd");
    }
    sync_vmi(&launcher, &ejected).await.unwrap();
    let changes: Vec<_> = launcher.fake.calls()[before..]
        .iter()
        .filter(|call| matches!(call, Call::UpdateDevice | Call::DetachDevice))
        .copied()
        .collect();
    assert_eq!(
        changes,
        [Call::UpdateDevice, Call::DetachDevice, Call::DetachDevice]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_detach_fails_the_sync_and_is_reported() {
    let launcher = TestLauncher::new().await;
    sync_vmi(&launcher, &vmi_with_volume("Ready"))
        .await
        .unwrap();
    let text = "operation failed: unplug of device was rejected by the guest";
    launcher.fake.fail_next(
        Call::DetachDevice,
        FakeDaemon::error(code::OPERATION_FAILED, origin::QEMU, text),
    );
    launcher.fake.publish(&Event::DeviceRemovalFailed {
        domain: DOMAIN.into(),
        alias: "ua-Data".into(),
    });
    let error = sync_vmi(&launcher, &vmi_with_volume("Detaching"))
        .await
        .unwrap_err();
    let message = error.message();
    assert!(
        message.starts_with("detaching volume Data: LibvirtError(Code=9, Domain=10,")
            && message.contains(text),
        "{message}"
    );
    let notifications = launcher
        .notifications_until("EVENT DeviceDetachRefused")
        .await;
    assert!(
        notifications
            .iter()
            .any(|line| line.contains("release Data")),
        "{notifications:#?}"
    );
}

/// A VMI with two hotplugged volumes in this phase, and a CD-ROM drive with a medium.
fn vmi_with_volumes_and_medium(phase: &str) -> Value {
    let mut vmi = vmi_with_volume(phase);
    let mut add = |list: &str, entry: Value| {
        let list = vmi.pointer_mut(list).unwrap().as_array_mut();
        list.unwrap().push(entry);
    };
    for (name, disk, target, phase) in [
        ("More", json!({"disk": {"bus": "scsi"}}), "sdb", phase),
        ("Cd", json!({"cdrom": {"bus": "sata"}}), "sdc", "Ready"),
    ] {
        let mut disk = disk;
        disk["name"] = json!(name);
        add("/spec/domain/devices/disks", disk);
        add(
            "/spec/volumes",
            json!({"name": name, "persistentVolumeClaim": {"claimName": name, "hotpluggable": true}}),
        );
        add(
            "/status/volumeStatus",
            json!({"name": name, "target": target, "phase": phase, "hotplugVolume": {"attachPodName": "hp"}}),
        );
    }
    vmi
}

/// The VMI of [`vmi_with_volumes_and_medium`], without the volumes and without the medium.
fn vmi_without_volumes_and_medium() -> Value {
    let mut vmi = vmi_with_volumes_and_medium("Detaching");
    for list in ["/spec/volumes", "/status/volumeStatus"] {
        let list = vmi.pointer_mut(list).unwrap().as_array_mut();
        list.unwrap().retain(|entry| entry["name"] != "Cd");
    }
    vmi
}

fn fail_next_detach(launcher: &TestLauncher, text: &str) {
    launcher.fake.fail_next(
        Call::DetachDevice,
        FakeDaemon::error(code::OPERATION_FAILED, origin::QEMU, text),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_change_holds_up_no_other_change() {
    let launcher = TestLauncher::new().await;
    sync_vmi(&launcher, &vmi_with_volumes_and_medium("Ready"))
        .await
        .unwrap();
    fail_next_detach(&launcher, "refused once");
    let mut with_other_settings = vmi_without_volumes_and_medium();
    with_other_settings["spec"]["domain"]["cpu"]["sockets"] = json!(2);
    let error = sync_vmi(&launcher, &with_other_settings).await.unwrap_err();
    assert_eq!(
        error.message(),
        "detaching volume Data: LibvirtError(Code=9, Domain=10, Message='refused once')"
    );
    let live = domain_xml(&launcher, XmlKind::Active);
    assert!(
        live.contains("sda") && !live.contains("sdb") && !live.contains("Cd.img"),
        "{live}"
    );
    launcher
        .notifications_until("the VMI asks for 2 processors")
        .await;
    let changed = sync_vmi(&launcher, &vmi_without_volumes_and_medium()).await;
    assert_eq!(changed.unwrap(), CommandSuccess::Changed);
    assert_eq!(has_disk(&launcher), (false, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_names_all_changes_that_failed_and_one_event_reports_each() {
    let launcher = TestLauncher::new().await;
    sync_vmi(&launcher, &vmi_with_volumes_and_medium("Ready"))
        .await
        .unwrap();
    for _ in 0..3 {
        for _ in 0..2 {
            fail_next_detach(&launcher, "refused");
        }
        let error = sync_vmi(&launcher, &vmi_without_volumes_and_medium()).await;
        let refused = "LibvirtError(Code=9, Domain=10, Message='refused')";
        assert_eq!(
            error.unwrap_err().message(),
            format!(
                "2 changes were not made: detaching volume Data: {refused}; detaching volume More: {refused}"
            )
        );
    }
    let notifications = launcher
        .notifications_until("DeviceChangeFailed: detaching volume More")
        .await;
    for volume in ["Data", "More"] {
        let report = format!("DeviceChangeFailed: detaching volume {volume}");
        let reports = notifications.iter().filter(|line| line.contains(&report));
        assert_eq!(reports.count(), 1, "{notifications:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_that_does_not_answer_is_no_event_of_each_device() {
    let launcher = TestLauncher::new().await;
    sync_vmi(&launcher, &vmi_with_volumes_and_medium("Ready"))
        .await
        .unwrap();
    for _ in 0..2 {
        let closed = "internal error: client socket is closed";
        launcher.fake.fail_next(
            Call::DetachDevice,
            FakeDaemon::error(code::INTERNAL_ERROR, origin::RPC, closed),
        );
    }
    let answer = sync_vmi(&launcher, &vmi_without_volumes_and_medium()).await;
    answer.unwrap_err();
    launcher.notifications_until("Running").await;
    let notifications = launcher.handler.notifications();
    assert!(
        !notifications
            .iter()
            .any(|line| line.contains("DeviceChangeFailed")),
        "{notifications:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn volume_without_an_image_is_not_attached_and_the_sync_succeeds() {
    let launcher = TestLauncher::new().await;
    sync_vmi(&launcher, &vmi_with_volume("AttachedToNode"))
        .await
        .unwrap();
    assert_eq!(has_disk(&launcher), (false, false));
    let attached = sync_vmi(&launcher, &vmi_with_volume("MountedToPod"))
        .await
        .unwrap();
    assert_eq!(attached, CommandSuccess::Unchanged);
    assert_eq!(launcher.fake.count(Call::AttachDevice), 0);
}
