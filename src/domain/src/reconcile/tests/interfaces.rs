//! Plans for interfaces.

use super::*;

fn in_pod() -> Value {
    json!([{"name": "blue", "infoSource": "domain, multus-status"}])
}

fn interface_changes(phase: &str, interface: &Value, live_devices: &str) -> Vec<DeviceChange> {
    let interfaces = json!([interface]);
    let vmi = vmi(json!({"phase": phase, "interfaces": in_pod()}), interfaces);
    let link = match interface["state"].as_str() {
        Some("down") => "<link state='down'/>",
        _ => "",
    };
    let spec = match interface["state"].as_str() {
        Some("absent") => String::new(),
        _ => format!("<interface type='ethernet'>{link}<alias name='ua-blue'/></interface>"),
    };
    plan(&vmi, &wanted(&spec), &live(live_devices)).changes
}

/// An interface whose tap device is named after the first digits of the SHA-256 of `blue`.
const BLUE: &str = "<interface type='ethernet'><mac address='02:00:00:AB:00:01'/>\
    <target dev='tap16477688c0e' managed='no'/><model type='virtio-non-transitional'/>\
    <alias name='ua-blue'/></interface>";

#[test]
fn interfaces_are_attached_when_the_pod_has_them_and_the_vmi_runs() {
    let blue = json!({"name": "blue", "bridge": {}});
    let attach = ["attaching interface blue"];
    assert_eq!(
        descriptions(&interface_changes("Running", &blue, "")),
        attach
    );
    assert_eq!(interface_changes("Scheduled", &blue, ""), []);
    assert_eq!(interface_changes("Running", &blue, BLUE), []);
    let sriov = json!({"name": "blue", "sriov": {}});
    assert_eq!(interface_changes("Running", &sriov, ""), []);
}

#[test]
fn only_interfaces_with_a_hashed_tap_name_are_detached() {
    let absent = json!({"name": "blue", "bridge": {}, "state": "absent"});
    let changes = interface_changes("Running", &absent, BLUE);
    let [DeviceChange::DetachInterface(device)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(device.xml, BLUE);
    let ordinal = BLUE.replace("tap16477688c0e", "tap1");
    assert_eq!(interface_changes("Running", &absent, &ordinal), []);
    assert_eq!(interface_changes("Running", &absent, ""), []);
}

#[test]
fn link_state_is_changed_in_the_live_interface() {
    let down = json!({"name": "blue", "bridge": {}, "state": "down"});
    let up = json!({"name": "blue", "bridge": {}});
    let changes = interface_changes("Running", &down, BLUE);
    let [DeviceChange::SetLink(device)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    let live_down = device.xml.clone();
    assert!(live_down.contains("<link state='down'/>"), "{live_down}");
    assert_eq!(interface_changes("Running", &down, &live_down), []);
    let changes = interface_changes("Running", &up, &live_down);
    let [DeviceChange::SetLink(device)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(device.xml, BLUE);
    let live_up = live_down.replace("down", "up");
    assert_eq!(interface_changes("Running", &up, &live_up), []);
}
