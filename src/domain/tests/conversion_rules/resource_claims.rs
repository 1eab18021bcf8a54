//! Host devices and SR-IOV interfaces from resource claims.

use serde_json::{Value, json};

use super::Case;

fn case(devices: Value, claimed: Value) -> Case {
    Case::of(json!({
        "resourceClaims": [{"name": "c", "resourceClaimName": "claim"}],
        "domain": {"devices": devices},
        "networks": [{"name": "n", "resourceClaim": {"claimName": "c", "requestName": "r"}}],
    }))
    .host(json!({"claimedDevices": {"c": {"r": claimed}}}))
}

fn request(name: &str) -> Value {
    json!({"name": name, "claimName": "c", "requestName": "r"})
}

#[test]
fn claimed_devices_are_mediated_or_pci_devices() {
    let both = json!({"gpus": [request("g")], "hostDevices": [request("h")]});
    let mediated = case(
        both.clone(),
        json!({"mdevUUID": "m", "pciBusID": "0000:01:00.0"}),
    )
    .domain_spec();
    let devices = mediated.devices.host_devices;
    assert_eq!(devices[0].alias.as_ref().unwrap().name, "dra-hostdevice-h");
    assert_eq!(devices[0].display, "");
    assert_eq!(devices[1].alias.as_ref().unwrap().name, "dra-gpu-g");
    assert_eq!(
        (devices[1].kind.as_str(), devices[1].display.as_str()),
        ("mdev", "on")
    );
    let pci = case(both, json!({"pciBusID": "0000:01:00.0"})).domain_spec();
    assert!(
        pci.devices
            .host_devices
            .iter()
            .all(|device| device.kind == "pci" && device.display.is_empty())
    );
}

#[test]
fn claimed_interfaces_become_host_devices() {
    let interface = json!({"interfaces": [{"name": "n", "sriov": {}, "bootOrder": 2, "pciAddress": "0000:09:00.0"}]});
    let spec = case(interface.clone(), json!({"pciBusID": "0000:01:00.3"})).domain_spec();
    assert!(spec.devices.interfaces.is_empty());
    let device = &spec.devices.host_devices[0];
    assert_eq!(device.alias.as_ref().unwrap().name, "sriov-n");
    assert_eq!(device.address.as_ref().unwrap().bus, "0x09");
    assert_eq!(device.boot_order.as_ref().unwrap().order, 2);
    assert_eq!(
        case(interface, json!({})).conversion_error(),
        "failed to resolve PCI address for SR-IOV DRA interface n (claim c request r): \
         pciBusID not found for claim \"c\" request \"r\""
    );
}

#[test]
fn claims_without_a_device_are_errors() {
    assert_eq!(
        case(json!({"gpus": [request("g")]}), json!({})).conversion_error(),
        "failed to create DRA GPU host-devices: \
         GPU g has no mdevUUID or pciBusID in metadata for claim c request r \
         (mdev: mdevUUID not found for claim \"c\" request \"r\", pci: pciBusID not found for claim \"c\" request \"r\")"
    );
    let half = json!({"hostDevices": [{"name": "h", "claimName": "c"}]});
    assert_eq!(
        case(half, json!({})).conversion_error(),
        "failed to create dra generic host-devices: HostDevice h has incomplete ClaimRequest"
    );
    let other = json!({"hostDevices": [{"name": "h", "claimName": "other", "requestName": "r"}]});
    assert!(
        case(other, json!({"pciBusID": "0000:01:00.0"}))
            .conversion_error()
            .contains("claim other")
    );
}
