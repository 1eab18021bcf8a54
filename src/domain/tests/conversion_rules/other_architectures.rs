//! What nodes of arm64 and s390x refuse, and what is theirs beyond the corpus.

use serde_json::{Value, json};

use super::Case;

/// A VMI on a node of this architecture.
fn on(architecture: &str, domain: Value) -> Case {
    Case {
        host: json!({"architecture": architecture}),
        ..Case::of(json!({"architecture": architecture, "domain": domain}))
    }
}

const MISSING_FIRMWARE: &str = "EFI OVMF roms missing for booting in EFI mode with SecureBoot=";

#[test]
fn what_an_architecture_does_not_have_is_refused_by_name() {
    let efi = |secure: bool| json!({"firmware": {"bootloader": {"efi": {"secureBoot": secure}}}});
    let missing = |secure: bool| {
        format!("{MISSING_FIRMWARE}{secure}, SEV/SEV-ES=false, SEV-SNP=false, TDX=false")
    };
    let sound = |architecture: &str| {
        format!("spec.domain.devices.sound: guests of {architecture} have no sound card; remove it")
    };
    let devices = |devices: Value| json!({"devices": devices});
    let watchdog =
        |model: &str| devices(json!({"watchdog": {"name": "w", model: {"action": "reset"}}}));
    let sound_card = || devices(json!({"sound": {"name": "s", "model": "ich9"}}));
    let rows = [
        ("arm64", watchdog("i6300esb"), "watchdog is not supported on architecture ARM64".to_owned()),
        (
            "s390x",
            watchdog("i6300esb"),
            "watchdog w can't be mapped, no watchdog type specified".to_owned(),
        ),
        ("arm64", sound_card(), sound("arm64")),
        ("s390x", sound_card(), sound("s390x")),
        (
            "arm64",
            json!({"launchSecurity": {"sev": {}}}),
            "spec.domain.launchSecurity: guests of arm64 have none; remove it, or run the VM on a node of another \
             architecture"
                .to_owned(),
        ),
        ("arm64", efi(true), missing(true)),
    ];
    for (architecture, domain, error) in rows {
        assert_eq!(on(architecture, domain).conversion_error(), error);
    }
    for (architecture, host) in [
        (
            "arm64",
            json!({"architecture": "arm64", "firmwareFiles": ["OVMF_CODE.fd", "OVMF_VARS.fd"]}),
        ),
        (
            "arm64",
            json!({"architecture": "arm64", "firmwareFiles": ["AAVMF_CODE.fd"]}),
        ),
        ("s390x", json!({"architecture": "s390x", "ovmfPath": ""})),
        (
            "s390x",
            json!({"architecture": "s390x", "firmwareFiles": []}),
        ),
    ] {
        let case = Case {
            host,
            ..on(architecture, efi(false))
        };
        assert_eq!(case.conversion_error(), missing(false), "{architecture}");
    }
}

/// libvirt finds the firmware with secure boot, and the place of its variables.
#[test]
fn libvirt_chooses_arm64s_firmware_with_secure_boot_and_its_variable_store() {
    let efi = json!({"firmware": {"bootloader": {"efi": {"secureBoot": true}}}});
    let case = Case {
        host: json!({"architecture": "arm64", "firmwareAutoSelection": true}),
        ..on("arm64", efi)
    };
    let os = case.domain_spec().os;
    assert_eq!((os.firmware.as_str(), os.nvram), ("efi", None));
}

#[test]
fn secure_execution_of_s390x_takes_iommu_and_no_launch_security_element() {
    let devices = json!({"rng": {}, "disks": [{"name": "d", "disk": {"bus": "virtio"}}]});
    let mut case = on("s390x", json!({"launchSecurity": {}, "devices": devices}));
    case.spec["volumes"] = json!([{"name": "d", "emptyDisk": {"capacity": "1Gi"}}]);
    let spec = case.domain_spec();
    assert!(spec.launch_security.is_none());
    let disk = spec.devices.disks[0].driver.as_ref().unwrap();
    let rng = spec.devices.rng.unwrap().driver.unwrap();
    assert_eq!((disk.iommu.as_str(), rng.iommu.as_str()), ("on", "on"));
}

/// Cryptographic adapters.
#[test]
fn claimed_mediated_devices_of_s390x_are_adapters() {
    let domain = json!({"devices": {"hostDevices": [{"name": "crypto", "claimName": "c", "requestName": "r"}]}});
    for (architecture, model) in [("arm64", "vfio-pci"), ("s390x", "vfio-ap")] {
        let mut case = Case {
            host: json!({
                "architecture": architecture,
                "claimedDevices": {"c": {"r": {"mdevUUID": "123e4567-e89b-12d3-a456-426614174000"}}},
            }),
            ..on(architecture, domain.clone())
        };
        case.spec["resourceClaims"] = json!([{"name": "c", "resourceClaimName": "claim"}]);
        let devices = case.domain_spec().devices.host_devices;
        assert_eq!(devices[0].model, model, "{architecture}");
    }
}

/// On amd64, where it is allowed.
fn emulated(architecture: &str, domain: Value, emulators: Value) -> Case {
    Case {
        host: json!({"allowCrossArchEmulation": true, "emulators": emulators, "ovmfPath": "/usr/share/AAVMF"}),
        ..on(architecture, domain)
    }
}

#[test]
fn guest_of_another_architecture_is_emulated_with_its_machine_and_without_display() {
    let rows = [
        (
            "arm64",
            json!({"cpu": {"model": "host-passthrough"}, "firmware": {"bootloader": {"efi": {"secureBoot": false}}}}),
            "/usr/bin/qemu-system-aarch64",
            ("aarch64", "virt", "/usr/share/AAVMF/AAVMF_CODE.fd"),
            "max",
        ),
        (
            "s390x",
            json!({}),
            "/usr/bin/qemu-system-s390x",
            ("s390x", "s390-ccw-virtio", ""),
            "max",
        ),
        (
            "s390x",
            json!({"cpu": {"model": "z14"}}),
            "/usr/bin/qemu-system-s390x",
            ("s390x", "s390-ccw-virtio", ""),
            "z14",
        ),
    ];
    for (architecture, domain, emulator, machine, model) in rows {
        let spec = emulated(architecture, domain, json!(null)).domain_spec();
        let (kind, loader) = (spec.os.kind, spec.os.boot_loader);
        let loader = loader.map_or_else(String::new, |loader| loader.path);
        assert_eq!(
            (spec.kind.as_str(), spec.devices.emulator.as_str()),
            ("qemu", emulator)
        );
        assert_eq!(
            (kind.arch.as_str(), kind.machine.as_str(), loader.as_str()),
            machine
        );
        assert_eq!(
            (spec.cpu.mode.as_str(), spec.cpu.model.as_str()),
            ("custom", model)
        );
        assert!(spec.devices.graphics.is_empty() && spec.devices.video.is_empty());
        assert!(!spec.devices.inputs.is_empty());
    }
}

#[test]
fn missing_emulator_is_an_error_that_names_it() {
    let error = emulated("s390x", json!({}), json!(["qemu-system-x86_64"])).conversion_error();
    assert_eq!(
        error,
        "emulator binary /usr/bin/qemu-system-s390x not found in the launcher's image, which emulates guests of s390x \
         with it"
    );
    let installed = json!(["qemu-system-s390x"]);
    emulated("s390x", json!({}), installed).domain_spec();
}

/// The node's own guests are as without the flag.
#[test]
fn guests_of_the_nodes_architecture_are_not_emulated() {
    let spec = emulated("amd64", json!({}), json!([])).domain_spec();
    assert_eq!(
        (spec.kind.as_str(), spec.devices.emulator.as_str()),
        ("kvm", "")
    );
    assert!(!spec.devices.graphics.is_empty());
}
