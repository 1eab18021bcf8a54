//! GPUs, vGPUs, other host devices and the iommufd, which device plugins allocate.

use domain::convert::{Purpose, convert_for};
use domain::libvirt_spec::HostDevice;
use serde_json::{Value, json};

use super::Case;

fn gpus(gpus: Value, plugins: Value) -> Case {
    Case::devices(json!({"gpus": gpus})).host(json!({"devicePlugins": plugins}))
}

/// Type, alias, display and frame buffer of a host device.
fn type_alias_and_display(device: &HostDevice) -> (&str, &str, &str, &str) {
    let alias = &device.alias.as_ref().unwrap().name;
    (&device.kind, alias, &device.display, &device.ramfb)
}

#[test]
fn gpus_are_pci_or_mediated_devices() {
    let case = gpus(
        json!([{"name": "whole", "deviceName": "nvidia.com/GA102"}, {"name": "part", "deviceName": "nvidia.com/T4-1Q"}]),
        json!({"PCI_RESOURCE_NVIDIA_COM_GA102": "0000:65:00.0", "MDEV_PCI_RESOURCE_NVIDIA_COM_T4-1Q": "11111111-2222-3333-4444-555555555555,"}),
    );
    let devices = case.domain_spec().devices.host_devices;
    assert_eq!(
        type_alias_and_display(&devices[0]),
        ("pci", "gpu-whole", "", "")
    );
    assert_eq!(devices[0].managed, "no");
    let source = devices[0].source.address.as_ref().unwrap();
    assert_eq!((source.kind.as_str(), source.bus.as_str()), ("pci", "0x65"));
    // The first mediated device gets the display if the VMI configures none.
    assert_eq!(
        type_alias_and_display(&devices[1]),
        ("mdev", "gpu-part", "on", "on")
    );
    assert_eq!(
        (devices[1].mode.as_str(), devices[1].model.as_str()),
        ("subsystem", "vfio-pci")
    );
    let uuid = &devices[1].source.address.as_ref().unwrap().uuid;
    assert_eq!(uuid, "11111111-2222-3333-4444-555555555555");
}

#[test]
fn vgpu_migration_target_needs_libvirts_migration_hook() {
    let target = |gpus: Value, uuids: &str, serves_migration_hook: bool| {
        let case = Case::devices(json!({ "gpus": gpus }))
            .options(json!({"clusterConfig": {"VGPULiveMigrationEnabled": true}}))
            .host(json!({"devicePlugins": {"MDEV_PCI_RESOURCE_A_B": uuids},
                "servesMigrationHook": serves_migration_hook}));
        let (vmi, options, host) = case.inputs();
        let spec = convert_for(Purpose::MigrationTarget, &vmi, &options, &host);
        spec.map(|spec| spec.devices.host_devices.len())
            .map_err(|error| error.to_string())
    };
    let one_gpu = json!([{"name": "a", "deviceName": "a/b"}]);
    assert_eq!(target(one_gpu.clone(), "1", true), Ok(1));
    assert_eq!(
        target(one_gpu, "1", false).unwrap_err(),
        "vGPU live migration requires LibvirtHooksServerAndClient feature gate for vmi vm"
    );
    let two_gpus = json!([{"name": "a", "deviceName": "a/b"}, {"name": "b", "deviceName": "a/b"}]);
    assert_eq!(
        target(two_gpus, "1,2", true).unwrap_err(),
        "vGPU live migration currently only supports a single vGPU, found 2 for vmi vm"
    );
}

#[test]
fn gpu_displays_follow_the_vmi() {
    let gpu = |name: &str, display: Value| json!({"name": name, "deviceName": "a/b", "virtualGPUOptions": {"display": display}});
    let case = gpus(
        json!([
            gpu("on", json!({})),
            gpu("off", json!({"enabled": false})),
            gpu("bare", json!({"ramFB": {"enabled": false}}))
        ]),
        json!({"MDEV_PCI_RESOURCE_A_B": "1,2,3"}),
    );
    let devices = case.domain_spec().devices.host_devices;
    let displays: Vec<_> = devices.iter().map(type_alias_and_display).collect();
    assert_eq!(
        displays,
        [
            ("mdev", "gpu-on", "on", "on"),
            ("mdev", "gpu-off", "", ""),
            ("mdev", "gpu-bare", "on", "")
        ]
    );
    // A whole GPU gets a display only on request.
    let pci = |display: Value| {
        let case = gpus(
            json!([gpu("g", display)]),
            json!({"PCI_RESOURCE_A_B": "0000:65:00.0"}),
        );
        let device = case.domain_spec().devices.host_devices.remove(0);
        (device.display, device.ramfb)
    };
    assert_eq!(pci(json!({})), (String::new(), String::new()));
    assert_eq!(pci(json!({"enabled": true})), ("on".into(), String::new()));
    let both = json!({"enabled": true, "ramFB": {"enabled": true}});
    assert_eq!(pci(both), ("on".into(), "on".into()));
}

#[test]
fn host_devices_can_be_usb_devices() {
    let case = Case::devices(json!({"hostDevices": [
        {"name": "nic", "deviceName": "x/nic"}, {"name": "stick", "deviceName": "x/stick"}
    ]}))
    .host(json!({"devicePlugins": {"PCI_RESOURCE_X_NIC": "0000:01:00.1", "USB_RESOURCE_X_STICK": "3:7"}}));
    let spec = case.domain_spec();
    let devices = &spec.devices.host_devices;
    assert_eq!(
        type_alias_and_display(&devices[0]),
        ("pci", "hostdevice-nic", "", "")
    );
    assert_eq!(
        type_alias_and_display(&devices[1]),
        ("usb", "usb-host-stick", "", "")
    );
    let address = devices[1].source.address.as_ref().unwrap();
    assert_eq!((address.bus.as_str(), address.device.as_str()), ("3", "7"));
    assert_eq!(spec.devices.controllers[0].model, "qemu-xhci");
}

#[test]
fn missing_and_invalid_plugin_devices_are_errors() {
    let missing = gpus(json!([{"name": "g", "deviceName": "a/b"}]), json!({}));
    assert!(missing.conversion_error().starts_with(
        "failed to create GPU host-devices: the number of device plugin GPU/s do not match the number of devices:"
    ));
    let missing = Case::devices(json!({"hostDevices": [{"name": "d", "deviceName": "a/b"}]}));
    assert!(missing.conversion_error().starts_with(
        "failed to create generic host-devices: the number of device plugin HostDevice/s"
    ));
    let invalid = gpus(
        json!([{"name": "g", "deviceName": "a/b"}]),
        json!({"PCI_RESOURCE_A_B": "65:00.0"}),
    );
    assert_eq!(
        invalid.conversion_error(),
        "failed to create GPU host-devices: failed to create hostdevice for g: \
         failed to create PCI device for g: failed to parse pci address 65:00.0"
    );
    let invalid = Case::devices(json!({"hostDevices": [{"name": "d", "deviceName": "a/b"}]}))
        .host(json!({"devicePlugins": {"USB_RESOURCE_A_B": "3"}}));
    assert_eq!(
        invalid.conversion_error(),
        "failed to create hostdevice for d: Bad value: 3"
    );
}

#[test]
fn device_without_a_resource_name_is_an_error() {
    let nameless = gpus(json!([{"name": "g"}]), json!({}));
    assert!(nameless.conversion_error().contains("\nGPU: [g ()]\n"));
}

#[test]
fn empty_plugin_address_is_an_error() {
    let with_gap = Case::devices(json!({"hostDevices": [
        {"name": "a", "deviceName": "x/y"}, {"name": "b", "deviceName": "x/y"}
    ]}))
    .host(json!({"devicePlugins": {"PCI_RESOURCE_X_Y": "0000:01:00.1,,0000:01:00.2"}}));
    assert!(
        with_gap
            .conversion_error()
            .ends_with("\nHostDevice: [a (x/y) b (x/y)]\nDevice: [hostdevice-a]")
    );
}

#[test]
fn iommufd_is_used_if_a_device_plugin_provides_one() {
    let spec = Case::default().host(json!({"iommufd": true})).domain_spec();
    assert_eq!(spec.iommufd.unwrap().fd_group, "iommu");
    assert!(Case::default().domain_spec().iommufd.is_none());
}
