//! The amount of data that a migration transfers, from which its completion timeout is computed.

use kubevirt_api::vmi::{ClaimInfo, Vmi};

const GIGABYTE: u64 = 1_000_000_000;
const MEMORY: &str = "memory";
const STORAGE: &str = "storage";

/// The data of a migration in units of 10⁹ bytes, rounded up: the guest's memory, the migrated volumes, and
/// `disk_bytes` of other disks that are copied.
pub fn completion_units(vmi: &Vmi, disk_bytes: u64) -> u64 {
    let domain = &vmi.spec.domain;
    let guest = domain.memory.as_ref().and_then(|memory| memory.guest);
    let memory = guest.or_else(|| domain.resources.requests.get(MEMORY).copied());
    let memory = memory.map_or(0, |memory| memory.bytes().unwrap_or(0));
    let bytes = memory
        .saturating_add(disk_bytes)
        .saturating_add(migrated_volume_bytes(vmi));
    bytes.div_ceil(GIGABYTE)
}

/// The size in bytes of the volumes that are copied to other claims, as far as the VMI's status contains it.
pub fn migrated_volume_bytes(vmi: &Vmi) -> u64 {
    let volumes = vmi.status.migrated_volumes.iter();
    let sizes = volumes.filter_map(|volume| claim_bytes(volume.source.as_ref()?));
    sizes.fold(0, u64::saturating_add)
}

/// The claim's capacity or request, whichever is smaller.
fn claim_bytes(claim: &ClaimInfo) -> Option<u64> {
    let capacity = claim.capacity.get(STORAGE)?.integer()?;
    let request = claim.requests.get(STORAGE)?.integer()?;
    u64::try_from(capacity.min(request)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn vmi(spec: &Value, status: &Value) -> Vmi {
        let vmi = json!({"metadata": {"name": "vm1", "namespace": "default"}, "spec": spec, "status": status});
        Vmi::from_json(vmi.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn completion_units_are_gigabytes_rounded_up() {
        let units = |memory: Value, disks| {
            completion_units(&vmi(&json!({"domain": memory}), &json!({})), disks)
        };
        assert_eq!(units(json!({"memory": {"guest": "256Mi"}}), 0), 1);
        assert_eq!(units(json!({"memory": {"guest": "1G"}}), 0), 1);
        assert_eq!(units(json!({"memory": {"guest": "1Gi"}}), 0), 2);
        let requested = json!({"resources": {"requests": {"memory": "3G"}}});
        assert_eq!(units(requested, 1), 4);
        assert_eq!(units(json!({}), 0), 0);
        let claim = json!({"capacity": {"storage": "5G"}, "requests": {"storage": "2G"}});
        let volumes = json!({"migratedVolumes": [{"volumeName": "a", "sourcePVCInfo": claim}, {"volumeName": "b"}]});
        assert_eq!(completion_units(&vmi(&json!({}), &volumes), 0), 2);
    }
}
