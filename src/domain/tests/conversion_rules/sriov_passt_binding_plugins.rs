//! Interfaces with SR-IOV, passt and binding plugins.

use serde_json::{Value, json};

use super::Case;

fn case(interface: Value, info: Value) -> Case {
    let name = interface["name"].clone();
    Case::of(json!({
        "domain": {"devices": {"interfaces": [interface]}},
        "networks": [{"name": name, "multus": {"networkName": "n"}}],
    }))
    .status(json!({"interfaces": [{"name": "v", "infoSource": "domain, multus-status", "podInterfaceName": "pod1"}]}))
    .host(json!({"networkInfo": info}))
}

#[test]
fn sriov_interfaces_become_host_devices() {
    let info = json!({"interfaces": [
        {"network": "other"},
        {"network": "v", "deviceInfo": {"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:65:00.2"}}}
    ]});
    let spec = case(
        json!({"name": "v", "sriov": {}, "bootOrder": 1}),
        info.clone(),
    )
    .domain_spec();
    assert!(spec.devices.interfaces.is_empty());
    let device = &spec.devices.host_devices[0];
    assert_eq!(
        (device.kind.as_str(), device.managed.as_str()),
        ("pci", "no")
    );
    assert_eq!(device.alias.as_ref().unwrap().name, "sriov-v");
    assert_eq!(device.source.address.as_ref().unwrap().function, "0x2");
    assert_eq!(device.boot_order.as_ref().unwrap().order, 1);

    let invalid = json!({"name": "v", "sriov": {}, "pciAddress": "x"});
    assert_eq!(
        case(invalid, info).conversion_error(),
        "failed to create hostdevice for v: failed to interpret the guest PCI address: failed to parse pci address x"
    );
}

#[test]
fn sriov_interfaces_without_a_pci_address_are_errors() {
    let interface = json!({"name": "v", "sriov": {}});
    assert_eq!(
        case(interface.clone(), json!(null)).conversion_error(),
        "found no SR-IOV networks to PCI-Address mapping"
    );
    let other = json!({"interfaces": [{"network": "w", "deviceInfo": {"pci": {"pci-address": "0000:65:00.2"}}}]});
    assert_eq!(
        case(interface, other).conversion_error(),
        "failed to create hostdevice for v: PCI-Address for SR-IOV network \"v\" not found"
    );
    // An interface that Multus has not attached yet is hotplugged later.
    let spec = case(json!({"name": "w", "sriov": {}}), json!(null)).domain_spec();
    assert!(spec.devices.host_devices.is_empty());
}

#[test]
fn passt_excludes_the_ports_of_istio() {
    let ports =
        json!([{"port": 80}, {"port": 53, "protocol": "UDP"}, {"port": 9, "protocol": "SCTP"}]);
    let interface = json!({"name": "v", "passtBinding": {}, "ports": ports});
    let forwards = |case: Case| case.domain_spec().devices.interfaces.remove(0).port_forward;
    let plain = forwards(case(interface.clone(), json!(null)));
    assert_eq!(plain.len(), 2);
    assert_eq!((plain[0].proto.as_str(), plain[0].ranges.len()), ("tcp", 1));
    assert_eq!(
        (plain[1].proto.as_str(), plain[1].ranges[0].start),
        ("udp", 53)
    );
    let with_istio = case(interface, json!(null)).annotation("sidecar.istio.io/inject", "True");
    let with_istio = forwards(with_istio);
    assert_eq!(with_istio[0].ranges.len(), 11);
    assert_eq!(
        (
            with_istio[0].ranges[0].start,
            with_istio[0].ranges[0].exclude.as_str()
        ),
        (15000, "yes")
    );
}

#[test]
fn binding_plugins_get_an_interface_only_with_a_tap_attachment() {
    let interface = json!({"name": "v", "binding": {"name": "plugin"}});
    assert!(
        case(interface.clone(), json!(null))
            .domain_spec()
            .devices
            .interfaces
            .is_empty()
    );
    let interfaces_with = |attachment: &str| {
        let case = case(interface.clone(), json!(null));
        case.options(json!({"interfaceDomainAttachment": {"v": attachment}}))
            .domain_spec()
            .devices
            .interfaces
    };
    assert_eq!(interfaces_with("tap")[0].kind, "ethernet");
    assert!(interfaces_with("managedTap").is_empty());
}

#[test]
fn sriov_interfaces_are_converted_when_multus_has_attached_them() {
    let interface = json!({"name": "v", "sriov": {}});
    let mut case = case(interface, json!({"interfaces": []}));
    assert_eq!(
        case.conversion_error(),
        "found no SR-IOV networks to PCI-Address mapping"
    );
    case.status["interfaces"][0]["infoSource"] = json!("domain,multus-status");
    assert!(case.domain_spec().devices.host_devices.is_empty());
}
