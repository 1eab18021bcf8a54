//! Placement of PCI devices on the root complex, and of host devices on buses of their NUMA node.

use domain::libvirt_spec::DomainSpec;
use serde_json::{Value, json};

use super::{Case, topology};

fn on_root(devices: Value) -> Case {
    Case::devices(devices).annotation("kubevirt.io/placePCIDevicesOnRootComplex", "true")
}

#[test]
fn occupied_root_slots_are_skipped() {
    let devices = json!({"inputs": [{"name": "t", "type": "tablet", "bus": "virtio"}], "watchdog": {"name": "w", "i6300esb": {}}});
    let spec = on_root(devices).domain_spec();
    let slot =
        |address: &Option<domain::libvirt_spec::Address>| address.as_ref().unwrap().slot.clone();
    let controllers: Vec<_> = spec
        .devices
        .controllers
        .iter()
        .map(|controller| slot(&controller.address))
        .collect();
    assert_eq!(controllers, ["0x02", "0x03", "0x04"]);
    assert_eq!(slot(&spec.devices.inputs[0].address), "0x05");
    assert_eq!(slot(&spec.devices.watchdogs[0].address), "0x06");
    assert_eq!(slot(&spec.devices.ballooning.unwrap().address), "0x07");
    let inputs: Vec<_> = (0..24)
        .map(|input| json!({"name": format!("t{input}"), "type": "tablet", "bus": "virtio"}))
        .collect();
    let slots: Vec<_> = on_root(json!({"inputs": inputs[..23]}))
        .domain_spec()
        .devices
        .inputs
        .iter()
        .map(|input| slot(&input.address))
        .collect();
    assert!(slots.contains(&"0x1a".into()) && slots.contains(&"0x1c".into()));
    assert!(!slots.contains(&"0x1b".into()));
    let full: Vec<_> = (0..60)
        .map(|input| json!({"name": format!("t{input}"), "type": "tablet", "bus": "virtio"}))
        .collect();
    assert_eq!(
        on_root(json!({"inputs": full})).conversion_error(),
        "No space left on the root PCI bus."
    );
}

/// A guest with three GPUs on NUMA nodes of the host.
fn numa_case(numa: Value, nodes: Value) -> Case {
    let gpus = json!([{"name": "a", "deviceName": "x/gpu"}, {"name": "b", "deviceName": "x/gpu"}, {"name": "c", "deviceName": "x/gpu"}]);
    let mut case = Case::domain(json!({
        "cpu": {"cores": 6, "dedicatedCpuPlacement": true, "numa": numa},
        "memory": {"guest": "64Mi", "hugepages": {"pageSize": "2Mi"}},
        "devices": {"gpus": gpus},
    }));
    case.options =
        json!({"topology": topology(), "clusterConfig": {"PCINUMAAwareTopologyEnabled": true}});
    case.host(json!({
        "cpuset": [0, 1, 2, 3, 4, 5, 6, 7],
        "devicePlugins": {"PCI_RESOURCE_X_GPU": "0000:01:00.0,0000:81:00.0,0000:02:00.0"},
        "deviceNumaNodes": nodes,
        "numaCpus": {"0": [0, 1, 4, 5], "1": [2, 3, 6, 7]},
    }))
}

/// Model, index and bus number of the PCI controllers.
fn pci_controllers(spec: &DomainSpec) -> Vec<(&str, &str, Option<u32>)> {
    let pci = spec
        .devices
        .controllers
        .iter()
        .filter(|controller| controller.kind == "pci");
    pci.map(|controller| {
        let target = controller.target.as_ref();
        (
            controller.model.as_str(),
            controller.index.as_str(),
            target.and_then(|target| target.bus_nr),
        )
    })
    .collect()
}

#[test]
fn host_devices_get_a_bus_on_their_numa_node() {
    let nodes = json!({"0000:01:00.0": 0, "0000:81:00.0": 1, "0000:02:00.0": 0});
    let spec = numa_case(json!({"guestMappingPassthrough": {}}), nodes).domain_spec();
    assert_eq!(
        pci_controllers(&spec),
        [
            ("pcie-expander-bus", "1", Some(253)),
            ("pcie-root-port", "2", None),
            ("pcie-root-port", "3", None),
            ("pcie-expander-bus", "4", Some(251)),
            ("pcie-root-port", "5", None),
        ]
    );
    let nodes: Vec<_> = spec
        .devices
        .controllers
        .iter()
        .filter_map(|controller| controller.target.as_ref()?.numa_node)
        .collect();
    assert_eq!(nodes, [0, 1]);
    let buses: Vec<_> = spec
        .devices
        .host_devices
        .iter()
        .map(|device| device.address.as_ref().unwrap().bus.as_str())
        .collect();
    assert_eq!(buses, ["2", "5", "3"]);
    let ports: Vec<_> = spec
        .devices
        .controllers
        .iter()
        .filter_map(|controller| controller.address.as_ref())
        .map(|address| (address.bus.as_str(), address.slot.as_str()))
        .collect();
    assert_eq!(ports, [("1", "0x00"), ("1", "0x01"), ("4", "0x00")]);
}

#[test]
fn devices_without_a_numa_node_are_errors_only_with_guest_numa() {
    let error = numa_case(
        json!({"guestMappingPassthrough": {}}),
        json!({"0000:01:00.0": 0, "0000:02:00.0": 0}),
    )
    .conversion_error();
    assert!(
        error.starts_with("failed to process strict PCIe NUMA-aware topology: "),
        "{error}"
    );
    assert!(error.contains("0000:81:00.0"));
    // Without guest NUMA, the guest has the single cell that huge pages in a memfd need.
    let relaxed = numa_case(json!(null), json!({"0000:01:00.0": 0})).domain_spec();
    let placed = relaxed
        .devices
        .host_devices
        .iter()
        .filter(|device| device.address.is_some());
    assert_eq!(placed.count(), 1);
}

#[test]
fn nvidia_grace_io_virtualization_is_refused() {
    let mut case = numa_case(
        json!({"guestMappingPassthrough": {}}),
        json!({"0000:01:00.0": 0, "0000:81:00.0": 1, "0000:02:00.0": 0}),
    );
    case.options["GraceHostDeviceAliases"] = json!(["gpu-a"]);
    assert_eq!(
        case.conversion_error(),
        "GraceIOVirtualization conversion requested without the GraceIOVirtualization feature gate"
    );
    case.options["clusterConfig"]["GraceIOVirtualizationEnabled"] = json!(true);
    assert_eq!(
        case.conversion_error(),
        "GraceIOVirtualization requires an IOMMUFD file descriptor in virt-launcher"
    );
    case.host["iommufd"] = json!(true);
    assert_eq!(
        case.conversion_error(),
        "GraceIOVirtualization requires SMMUv3 on the host"
    );
    case.host["architecture"] = json!("arm64");
    case.spec["architecture"] = json!("arm64");
    assert_eq!(
        case.conversion_error(),
        "GraceIOVirtualization is not supported by this launcher yet: turn the feature gate off"
    );
}

#[test]
fn error_lists_devices_without_a_numa_node_by_address() {
    let error = numa_case(json!({"guestMappingPassthrough": {}}), json!({})).conversion_error();
    let position = |address: &str| error.find(address).unwrap();
    assert!(position("0000:01:00.0") < position("0000:02:00.0"));
    assert!(position("0000:02:00.0") < position("0000:81:00.0"));
}
