//! The instance type and the UUID of the instance, by which cloud-init recognises a new VM.

use kubevirt_api::vmi::Vmi;
use uuid::Uuid;

const INSTANCE_TYPE_ANNOTATION: &str = "kubevirt.io/instancetype-name";
const CLUSTER_INSTANCE_TYPE_ANNOTATION: &str = "kubevirt.io/cluster-instancetype-name";

/// The name of the instance type. A cluster-wide instance type has precedence over one of the namespace.
pub(crate) fn instance_type(vmi: &Vmi) -> String {
    let annotation = |key| vmi.annotation(key).filter(|value| !value.is_empty());
    annotation(CLUSTER_INSTANCE_TYPE_ANNOTATION)
        .or_else(|| annotation(INSTANCE_TYPE_ANNOTATION))
        .unwrap_or_default()
        .to_owned()
}

/// The firmware's UUID, or one derived from the VMI if it has none. KubeVirt generates a new one for each boot; ours
/// stays the same, so that cloud-init does not treat each boot as the first.
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
