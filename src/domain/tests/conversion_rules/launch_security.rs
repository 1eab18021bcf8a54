//! Confidential computing: SEV, SEV-SNP and TDX.

use domain::libvirt_spec::DomainSpec;
use serde_json::{Value, json};

use super::Case;

fn protected_guest(security: Value) -> DomainSpec {
    let disks = json!([
        {"name": "a", "disk": {"bus": "virtio"}, "dedicatedIOThread": true},
        {"name": "b", "disk": {"bus": "scsi"}, "dedicatedIOThread": true},
        {"name": "c", "disk": {"bus": "virtio"}}
    ]);
    let volumes =
        ["a", "b", "c"].map(|name| json!({"name": name, "emptyDisk": {"capacity": "1Mi"}}));
    Case::of(json!({
        "domain": {
            "launchSecurity": security,
            "features": {},
            "firmware": {"bootloader": {"efi": {"secureBoot": false}}},
            "devices": {"disks": disks, "rng": {}, "interfaces": [
                {"name": "n", "bootOrder": 1, "masquerade": {}},
                {"name": "o", "model": "e1000", "masquerade": {}}
            ]},
        },
        "networks": [{"name": "n", "pod": {}}, {"name": "o"}],
        "volumes": volumes,
    }))
    .domain_spec()
}

#[test]
fn virtio_devices_of_sev_guests_use_the_iommu() {
    let devices = protected_guest(json!({"sev": {}})).devices;
    assert_eq!(devices.rng.unwrap().driver.unwrap().iommu, "on");
    let disks: Vec<_> = devices
        .disks
        .iter()
        .map(|disk| disk.driver.as_ref().unwrap().iommu.as_str())
        .collect();
    assert_eq!(disks, ["on", "", "on"]);
    let scsi = devices.controllers[1].driver.as_ref().unwrap();
    assert_eq!(
        (scsi.io_thread.is_some(), scsi.iommu.as_str()),
        (true, "on")
    );
    let nic = &devices.interfaces[0];
    assert_eq!(nic.driver.as_ref().unwrap().iommu, "on");
    assert!(nic.boot_order.is_some() && nic.rom.is_some());
    assert!(devices.interfaces[1].driver.is_none());
}

#[test]
fn launch_security_has_the_policy_of_its_kind() {
    let policy = |security: Value| {
        protected_guest(security)
            .launch_security
            .map(|security| (security.kind, security.policy))
    };
    assert_eq!(
        policy(json!({"sev": {}})),
        Some(("sev".into(), "0x1".into()))
    );
    assert_eq!(
        policy(json!({"sev": {"policy": {"encryptedState": true}}})),
        Some(("sev".into(), "0x5".into()))
    );
    assert_eq!(
        policy(json!({"snp": {}})),
        Some(("sev-snp".into(), "0x30000".into()))
    );
    assert_eq!(
        policy(json!({"tdx": {}})),
        Some(("tdx".into(), String::new()))
    );
    assert_eq!(policy(json!({})), None);
    let tdx = protected_guest(json!({"tdx": {}}));
    assert_eq!(tdx.features.unwrap().pmu.unwrap().state, "off");
    assert!(tdx.os.nvram.is_none());
    assert!(tdx.devices.rng.unwrap().driver.is_none());
}

#[test]
fn several_kinds_of_launch_security_are_an_error() {
    let case = Case::domain(json!({"launchSecurity": {"sev": {}, "tdx": {}}}));
    assert!(
        case.conversion_error()
            .starts_with("spec.domain.launchSecurity")
    );
}
