//! The request of SyncVirtualMachine, and when two requests are equal.

use hook_host::Plugins;
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;
use serde_json::Value;

/// A request to start or change the VM as the VMI says.
#[derive(Debug, Clone)]
pub struct SyncRequest {
    /// The wanted VM.
    pub vmi: Vmi,
    /// The cluster's settings.
    pub options: Options,
    /// KubeVirt's Plugins that change the domain.
    pub plugins: Plugins,
    /// Emulation may stand in for hardware virtualization.
    pub allow_emulation: bool,
}

/// The fields of the status that a sync reads. The others change while the VM runs and do not affect a sync.
const STATUS: [&str; 15] = [
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
/// The fields of an interface's status that a sync reads; addresses come and go with the guest's agent.
const INTERFACE: [&str; 4] = ["name", "mac", "podInterfaceName", "infoSource"];

impl SyncRequest {
    /// Whether both ask for the same VM: name, UID, annotations, labels, specification, options and the part of
    /// the status that is read. The resource version and who last wrote the object do not matter.
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
            && is_same_object(vmi, &other.vmi)
            && is_same_status(&vmi.value()["status"], &other.vmi.value()["status"])
    }
}

fn is_same_object(one: &Vmi, other: &Vmi) -> bool {
    let kubevirt_api::vmi::Metadata {
        name,
        namespace,
        uid,
        annotations,
        labels,
        deletion_timestamp: _,
    } = &one.metadata;
    let theirs = &other.metadata;
    *uid == theirs.uid
        && *name == theirs.name
        && *namespace == theirs.namespace
        && *annotations == theirs.annotations
        && *labels == theirs.labels
        && one.value()["spec"] == other.value()["spec"]
}

fn is_same_status(one: &Value, other: &Value) -> bool {
    let same = |field: &&str| one[*field] == other[*field];
    STATUS.iter().all(same) && is_same_interfaces(&one["interfaces"], &other["interfaces"])
}

fn is_same_interfaces(one: &Value, other: &Value) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (one, other) = (list(one), list(other));
    one.len() == other.len()
        && (one.iter().zip(&other))
            .all(|(one, other)| INTERFACE.iter().all(|field| one[*field] == other[*field]))
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
    fn change_that_a_sync_ignores_makes_no_other_request() {
        let one = request(|_| {});
        for edit in [
            |vmi: &mut Value| vmi["metadata"]["resourceVersion"] = json!("8"),
            |vmi: &mut Value| vmi["status"]["guestOSInfo"] = json!({"name": "Debian"}),
            |vmi: &mut Value| vmi["status"]["interfaces"][0]["ipAddress"] = json!("10.0.2.3"),
        ] {
            assert!(one.is_equal(&request(edit)));
        }
    }

    #[test]
    fn change_that_a_sync_reads_makes_another_request() {
        let one = request(|_| {});
        for edit in [
            |vmi: &mut Value| vmi["metadata"]["uid"] = json!("5678"),
            |vmi: &mut Value| vmi["metadata"]["annotations"] = json!({"a": "b"}),
            |vmi: &mut Value| vmi["spec"]["domain"]["cpu"]["cores"] = json!(2),
            |vmi: &mut Value| vmi["status"]["phase"] = json!("Scheduled"),
            |vmi: &mut Value| vmi["status"]["interfaces"][0]["infoSource"] = json!("domain"),
            |vmi: &mut Value| vmi["status"]["interfaces"] = json!([]),
            |vmi: &mut Value| vmi["status"]["volumeStatus"] = json!([{"name": "disk"}]),
        ] {
            assert!(!one.is_equal(&request(edit)));
        }
        let mut emulated = request(|_| {});
        emulated.allow_emulation = true;
        assert!(!one.is_equal(&emulated));
    }
}
