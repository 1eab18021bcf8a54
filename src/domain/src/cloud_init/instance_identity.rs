//! The identity of the instance, by which cloud-init recognises a new VM.

use kubevirt_api::vmi::Vmi;
use uuid::Uuid;

const INSTANCE_TYPE: &str = "kubevirt.io/instancetype-name";
const CLUSTER_INSTANCE_TYPE: &str = "kubevirt.io/cluster-instancetype-name";

/// The instance type's name; a cluster-wide one is preferred to one of the namespace.
pub(crate) fn instance_type(vmi: &Vmi) -> String {
    let annotation = |key| vmi.annotation(key).filter(|value| !value.is_empty());
    annotation(CLUSTER_INSTANCE_TYPE)
        .or_else(|| annotation(INSTANCE_TYPE))
        .unwrap_or_default()
        .to_owned()
}

/// The firmware's UUID. If the VMI has none, KubeVirt generates one per boot; this one stays the same, so that the
/// guest does not take each boot for its first.
pub(crate) fn instance_uuid(vmi: &Vmi) -> String {
    let firmware = vmi
        .spec
        .domain
        .firmware
        .as_ref()
        .map(|firmware| firmware.uuid.as_str())
        .unwrap_or_default();
    if !firmware.is_empty() {
        return firmware.to_owned();
    }
    let name = format!("{}/{}/{}", vmi.namespace(), vmi.name(), vmi.uid());
    Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).to_string()
}
