//! Errors about VMIs that cannot be converted.

use serde_json::{Value, json};

use super::Case;

fn conversion_error(spec: Value) -> String {
    Case::of(spec).conversion_error()
}

#[test]
fn errors_have_kubevirts_texts() {
    let error = |domain: Value| Case::domain(domain).conversion_error();
    assert_eq!(
        error(json!({"devices": {"sound": {"name": "s", "model": "sb16"}}})),
        "invalid model: sb16"
    );
    assert_eq!(
        error(json!({"devices": {"watchdog": {"name": "w"}}})),
        "watchdog w can't be mapped, no watchdog type specified"
    );
    assert_eq!(
        error(json!({"devices": {"inputs": [{"name": "i", "type": "tablet", "bus": "ps2"}]}})),
        "input contains unsupported bus ps2"
    );
    assert_eq!(
        error(json!({"firmware": {"acpi": {}}})),
        "No ACPI tables were set. Expecting at least one."
    );
    assert_eq!(
        error(json!({"firmware": {"acpi": {"msdmNameRef": "m"}}})),
        "Firmware's volume for msdm was not found"
    );
    assert_eq!(
        error(json!({"devices": {"interfaces": [{"name": "n"}]}})),
        "failed to find network n"
    );
}

#[test]
fn missing_firmware_is_reported_first() {
    let mut domain = json!({
        "launchSecurity": {"snp": {}},
        "firmware": {"bootloader": {"efi": {}}},
        "devices": {"sound": {"model": "sb16"}}
    });
    assert_eq!(
        Case::domain(domain.clone()).conversion_error(),
        "EFI OVMF roms missing for booting in EFI mode with SecureBoot=true, SEV/SEV-ES=false, \
         SEV-SNP=true, TDX=false"
    );
    domain["firmware"]["bootloader"]["efi"]["secureBoot"] = json!(false);
    assert_eq!(
        Case::domain(domain).conversion_error(),
        "invalid model: sb16"
    );
}

/// KubeVirt's launcher crashes on the first value, and converts the second to 4294967295 sockets.
#[test]
fn inconsistent_and_negative_values_are_errors() {
    let error = |domain: Value| Case::domain(domain).conversion_error();
    assert!(
        error(json!({"memory": {"maxGuest": "4Gi"}})).starts_with("spec.domain.memory.maxGuest")
    );
    assert_eq!(
        error(json!({"resources": {"requests": {"cpu": "-1500m"}}})),
        "spec.domain.resources.requests.cpu is -1500m, and must not be negative"
    );
}

#[test]
fn errors_of_invalid_disks_name_the_disk_and_the_value() {
    let disk = |disk: Value| json!({"domain": {"devices": {"disks": [disk]}}, "volumes": [{"name": "v", "emptyDisk": {}}]});
    assert_eq!(
        conversion_error(disk(json!({"name": "v", "disk": {"bus": "ide"}}))),
        "spec.domain.devices.disks[0].disk.bus is \"ide\"; it can be virtio, sata, scsi or usb"
    );
    assert_eq!(
        conversion_error(disk(json!({"name": "other", "disk": {"bus": "virtio"}}))),
        "no matching volume with name other found"
    );
    assert_eq!(
        conversion_error(disk(json!({"name": "v"}))),
        "spec.domain.devices.disks[0] is neither disk, lun nor cdrom"
    );
    assert!(
        conversion_error(disk(
            json!({"name": "v", "disk": {"bus": "virtio"}, "errorPolicy": "panic"})
        ))
        .contains("error policy panic not recognized")
    );
}

#[test]
fn guests_have_the_nodes_architecture_unless_it_may_be_emulated() {
    assert_eq!(
        conversion_error(json!({"architecture": "s390x"})),
        "spec.architecture is s390x, and the node is amd64: the launcher emulates other architectures only with \
         --allow-cross-arch-emulation, KubeVirt's feature gate CrossArchitectureVirtualization"
    );
    assert_eq!(
        conversion_error(json!({"architecture": "riscv64"})),
        "spec.architecture is \"riscv64\"; the launcher runs guests of amd64, arm64, s390x"
    );
}

#[test]
fn too_large_and_negative_amounts_are_errors() {
    let max = u32::MAX;
    assert!(
        conversion_error(
            json!({"domain": {"cpu": {"cores": max, "sockets": max, "threads": max}}})
        )
        .contains("virtual processors")
    );
    assert!(
        conversion_error(json!({"domain": {"cpu": {"maxSockets": max}}}))
            .contains("virtual processors")
    );
    assert_eq!(
        conversion_error(json!({"domain": {"memory": {"guest": "-1Mi"}}})),
        "Memory size '-1Mi' must be greater than or equal to 0"
    );
    let pool = json!({"domain": {"ioThreadsPolicy": "supplementalPool", "ioThreads": {"supplementalPoolThreadCount": max}}});
    assert!(conversion_error(pool).contains("supplementalPoolThreadCount"));
}

#[test]
fn emulation_without_kvm_must_be_allowed() {
    let case = |host: Value| Case::default().host(host);
    assert_eq!(
        case(json!({"kvmAvailable": false})).conversion_error(),
        "kvm not present and emulation is not allowed"
    );
    let emulated = case(json!({"kvmAvailable": false, "allowEmulation": true}));
    assert_eq!(emulated.domain_spec().kind, "qemu");
    assert_eq!(case(json!({})).domain_spec().kind, "kvm");
}

#[test]
fn nulls_and_unknown_fields_are_converted() {
    let devices = json!({"disks": null, "future": {}});
    let spec = json!({"volumes": null, "domain": {"devices": devices, "resources": null}});
    assert!(Case::of(spec).domain_spec().devices.disks.is_empty());
}
