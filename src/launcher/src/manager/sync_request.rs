//! The request of SyncVirtualMachine, and when two requests are equal.

use hook_host::Plugins;
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;
use serde_json::Value;

/// A request to start the VM or change the running VM to match its VMI.
#[derive(Debug, Clone)]
pub struct SyncRequest {
    /// The desired VM.
    pub vmi: Vmi,
    /// The cluster's settings.
    pub options: Options,
    /// The KubeVirt plugins that change the domain.
    pub plugins: Plugins,
    /// Whether emulation may replace hardware virtualization.
    pub allow_emulation: bool,
}

/// The fields of the VMI's status that a sync reads. The other fields change while the VM runs and do not affect a
/// sync.
const STATUS_FIELDS: [&str; 15] = [
    "phase",
    "runtimeUser",
    "volumeStatus",
    "currentCPUTopology",
    "memory",
    "migrationState",
    "migrationTransport",
    "migrationMethod",
    "migratedVolumes",
    "conditions",
    "kernelBootStatus",
    "topologyHints",
    "machine",
    "VSOCKCID",
    "changedBlockTracking",
];
/// The fields of an interface's status that a sync reads. Its addresses are omitted because they change with the guest
/// agent.
const INTERFACE_STATUS_FIELDS: [&str; 4] = ["name", "mac", "podInterfaceName", "infoSource"];

impl SyncRequest {
    /// Whether both ask for the same VM: name, UID, annotations, labels, specification, options and the part of the
    /// status that a sync reads. The resource version and the managed fields do not matter.
    pub(super) fn is_equal(&self, other: &SyncRequest) -> bool {
        let SyncRequest {
            vmi,
            options,
            plugins,
            allow_emulation,
        } = self;
        *allow_emulation == other.allow_emulation
            && *plugins == other.plugins
            && *options == other.options
            && is_equal_object(vmi, &other.vmi)
            && is_equal_status(&vmi.value()["status"], &other.vmi.value()["status"])
    }
}

fn is_equal_object(left: &Vmi, right: &Vmi) -> bool {
    let kubevirt_api::vmi::Metadata {
        name,
        namespace,
        uid,
        annotations,
        labels,
        deletion_timestamp: _,
    } = &left.metadata;
    let right_metadata = &right.metadata;
    *uid == right_metadata.uid
        && *name == right_metadata.name
        && *namespace == right_metadata.namespace
        && *annotations == right_metadata.annotations
        && *labels == right_metadata.labels
        && left.value()["spec"] == right.value()["spec"]
}

fn is_equal_status(left: &Value, right: &Value) -> bool {
    let is_equal = |field: &&str| left[*field] == right[*field];
    STATUS_FIELDS.iter().all(is_equal)
        && is_equal_interfaces(&left["interfaces"], &right["interfaces"])
}

fn is_equal_interfaces(left: &Value, right: &Value) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (left, right) = (list(left), list(right));
    let is_equal = |(left, right): (&Value, &Value)| {
        let mut fields = INTERFACE_STATUS_FIELDS.iter();
        fields.all(|field| left[*field] == right[*field])
    };
    left.len() == right.len() && left.iter().zip(&right).all(is_equal)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn request(edit: impl FnOnce(&mut Value)) -> SyncRequest {
        let mut vmi = json!({
            "metadata": {"name": "vm1", "namespace": "default", "uid": "1234", "resourceVersion": "7"},
            "spec": {"domain": {"cpu": {"cores": 1}}},
            "status": {
                "phase": "Running",
                "interfaces": [{"name": "default", "mac": "02:00:00:00:00:01", "ipAddress": "10.0.2.2"}],
                "guestOSInfo": {}
            }
        });
        edit(&mut vmi);
        SyncRequest {
            vmi: Vmi::from_json(vmi.to_string().as_bytes()).unwrap(),
            options: Options::default(),
            plugins: Plugins::default(),
            allow_emulation: false,
        }
    }

    #[test]
    fn requests_that_differ_in_a_field_that_a_sync_ignores_are_equal() {
        let original = request(|_| {});
        for edit in [
            |vmi: &mut Value| vmi["metadata"]["resourceVersion"] = json!("8"),
            |vmi: &mut Value| vmi["status"]["guestOSInfo"] = json!({"name": "Debian"}),
            |vmi: &mut Value| vmi["status"]["interfaces"][0]["ipAddress"] = json!("10.0.2.3"),
        ] {
            assert!(original.is_equal(&request(edit)));
        }
    }

    #[test]
    fn requests_that_differ_in_a_field_that_a_sync_reads_are_not_equal() {
        let original = request(|_| {});
        for edit in [
            |vmi: &mut Value| vmi["metadata"]["uid"] = json!("5678"),
            |vmi: &mut Value| vmi["metadata"]["annotations"] = json!({"a": "b"}),
            |vmi: &mut Value| vmi["spec"]["domain"]["cpu"]["cores"] = json!(2),
            |vmi: &mut Value| vmi["status"]["phase"] = json!("Scheduled"),
            |vmi: &mut Value| vmi["status"]["interfaces"][0]["infoSource"] = json!("domain"),
            |vmi: &mut Value| vmi["status"]["interfaces"] = json!([]),
            |vmi: &mut Value| vmi["status"]["volumeStatus"] = json!([{"name": "disk"}]),
        ] {
            assert!(!original.is_equal(&request(edit)));
        }
        let mut emulated = request(|_| {});
        emulated.allow_emulation = true;
        assert!(!original.is_equal(&emulated));
    }
}
