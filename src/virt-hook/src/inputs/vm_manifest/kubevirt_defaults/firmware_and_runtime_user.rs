//! Defaults that are in every VMI of a cluster: the firmware's UUID and serial number, and the user of QEMU.

use sha2::{Digest, Sha256};

use super::{Object, child, is_set};

/// The user of QEMU, unless the cluster has the feature gate `Root`.
const RUNTIME_USER: u64 = 107;

/// Sets the firmware's UUID, and for the VMI of a VirtualMachine also its serial number. They are random in a cluster;
/// here they are derived from the name, so that results are reproducible.
pub(super) fn set_firmware(spec: &mut Object, name: &str, is_of_vm: bool) {
    let domain = child(spec, "domain");
    let Some(firmware) = domain.and_then(|domain| child(domain, "firmware")) else {
        return;
    };
    for (field, has_field) in [("uuid", true), ("serial", is_of_vm)] {
        if has_field && !is_set(firmware.get(field)) {
            let uuid = uuid(&format!("{field} of {name}"));
            firmware.insert(field.to_owned(), uuid.into());
        }
    }
}

/// Sets the user of QEMU, on which the directories of libvirt's files depend.
pub(in super::super) fn set_runtime_user(vmi: &mut Object) {
    if let Some(status) = child(vmi, "status")
        && !is_set(status.get("runtimeUser"))
    {
        status.insert("runtimeUser".to_owned(), RUNTIME_USER.into());
    }
}

/// A UUID of version 8, whose content is up to the program.
fn uuid(text: &str) -> String {
    let mut digits = format!("{:x}", Sha256::digest(text));
    digits.truncate(32);
    digits.replace_range(12..13, "8");
    digits.replace_range(16..17, "8");
    for position in [20, 16, 12, 8] {
        digits.insert(position, '-');
    }
    digits
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn firmware_of(spec: Value, is_of_vm: bool) -> Value {
        let Value::Object(mut spec) = spec else {
            panic!("it is an object")
        };
        set_firmware(&mut spec, "ns/web", is_of_vm);
        spec["domain"]["firmware"].clone()
    }

    #[test]
    fn a_vm_has_a_firmware_uuid_and_a_serial_number() {
        let firmware = firmware_of(json!({"domain": {}}), true);
        let text = |field: &str| firmware[field].as_str().unwrap_or_default().to_owned();
        for field in ["uuid", "serial"] {
            let lengths: Vec<usize> = text(field).split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{firmware}");
        }
        assert_ne!(text("uuid"), text("serial"));
        let of_vmi = firmware_of(json!({"domain": {}}), false);
        assert_eq!(of_vmi, json!({"uuid": text("uuid")}));
        let own = json!({"uuid": "u", "serial": "s"});
        assert_eq!(firmware_of(json!({"domain": {"firmware": own}}), true), own);
    }
}
