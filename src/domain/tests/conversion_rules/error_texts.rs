//! The texts of errors about VMIs that cannot be converted.

use serde_json::{Value, json};

use super::Case;

#[test]
fn errors_have_the_texts_of_kubevirt() {
    let of = |domain: Value| Case::domain(domain).refusal();
    assert_eq!(
        of(json!({"devices": {"sound": {"name": "s", "model": "sb16"}}})),
        "invalid model: sb16"
    );
    assert_eq!(
        of(json!({"devices": {"watchdog": {"name": "w"}}})),
        "watchdog w can't be mapped, no watchdog type specified"
    );
    assert_eq!(
        of(json!({"devices": {"inputs": [{"name": "i", "type": "tablet", "bus": "ps2"}]}})),
        "input contains unsupported bus ps2"
    );
    assert_eq!(
        of(json!({"firmware": {"acpi": {}}})),
        "No ACPI tables were set. Expecting at least one."
    );
    assert_eq!(
        of(json!({"firmware": {"acpi": {"msdmNameRef": "m"}}})),
        "Firmware's volume for msdm was not found"
    );
    assert_eq!(
        of(json!({"devices": {"interfaces": [{"name": "n"}]}})),
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
        Case::domain(domain.clone()).refusal(),
        "EFI OVMF roms missing for booting in EFI mode with SecureBoot=true, SEV/SEV-ES=false, \
         SEV-SNP=true, TDX=false"
    );
    domain["firmware"]["bootloader"]["efi"]["secureBoot"] = json!(false);
    assert_eq!(Case::domain(domain).refusal(), "invalid model: sb16");
}

/// KubeVirt's launcher crashes on the first, and calls the second 4294967295 sockets.
#[test]
fn nonsensical_values_are_refused() {
    let of = |domain: Value| Case::domain(domain).refusal();
    assert!(of(json!({"memory": {"maxGuest": "4Gi"}})).starts_with("spec.domain.memory.maxGuest"));
    assert_eq!(
        of(json!({"resources": {"requests": {"cpu": "-1500m"}}})),
        "spec.domain.resources.requests.cpu is -1500m, and must not be negative"
    );
}
