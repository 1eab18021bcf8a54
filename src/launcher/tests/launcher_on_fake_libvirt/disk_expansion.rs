//! Disks of a running VM that are expanded with their claims.

use kubevirt_api::vmi::Vmi;
use libvirt::BlockInfo;
use libvirt::fake::Call;
use serde_json::json;
use virt_launcher::manager::Command;

use crate::support::test_launcher::{DOMAIN, TestLauncher, sync_request_for, vmi_json};

#[tokio::test(flavor = "multi_thread")]
async fn disk_of_a_running_vm_is_expanded_to_its_device() {
    let launcher = TestLauncher::new().await;
    let mut vmi = vmi_json();
    vmi["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "x"}}]);
    vmi["spec"]["domain"]["devices"]["disks"] =
        json!([{"name": "data", "disk": {"bus": "virtio"}}]);
    vmi["status"] = json!({"volumeStatus": [{"name": "data", "target": "vda",
        "persistentVolumeClaimInfo": {"volumeMode": "Block", "capacity": {"storage": "2Gi"}}}]});
    let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
    launcher
        .manager
        .run(Command::sync(sync_request_for(vmi.clone())))
        .await
        .unwrap();
    assert_eq!(
        launcher.fake.count(Call::BlockInfo),
        0,
        "no disk is expanded before the start"
    );
    let grown = BlockInfo {
        capacity: 1 << 30,
        physical: 2 << 30,
        ..BlockInfo::default()
    };
    launcher.fake.set_block_info(DOMAIN, "/dev/data", grown);
    for _ in 0..2 {
        launcher
            .manager
            .run(Command::sync(sync_request_for(vmi.clone())))
            .await
            .unwrap();
    }
    let expanded = launcher.fake.block_info(DOMAIN, "/dev/data").unwrap();
    assert_eq!(
        (expanded.capacity, launcher.fake.count(Call::ResizeBlock)),
        (2 << 30, 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_of_disks_are_read_once() {
    let launcher = TestLauncher::new().await;
    let mut vmi = vmi_json();
    // The claim's device is /dev/null, which exists and has no size.
    vmi["spec"]["volumes"] = json!([{"name": "null", "persistentVolumeClaim": {"claimName": "x"}}]);
    vmi["spec"]["domain"]["devices"]["disks"] =
        json!([{"name": "null", "disk": {"bus": "virtio"}}]);
    vmi["status"] = json!({"volumeStatus": [{"name": "null", "target": "vda",
        "persistentVolumeClaimInfo": {"volumeMode": "Block", "capacity": {"storage": "1Gi"}}}]});
    let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
    let sync = async || {
        let sync = Command::sync(sync_request_for(vmi.clone()));
        launcher.manager.run(sync).await.unwrap()
    };
    sync().await;
    let size = BlockInfo {
        capacity: 1 << 30,
        physical: 1 << 30,
        ..BlockInfo::default()
    };
    launcher.fake.set_block_info(DOMAIN, "/dev/null", size);
    for _ in 0..3 {
        sync().await;
    }
    assert_eq!(launcher.fake.count(Call::BlockInfo), 1);
}
