//! The request of SyncVirtualMachine, and when two requests are equal.

use hook_host::Plugins;
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;

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

impl SyncRequest {
    /// Whether both ask for the same VM with the same options.
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
            && is_equal_vmi(vmi, &other.vmi)
    }
}

/// Whether both VMIs ask for the same: name, UID, annotations, labels, specification and status. Of the status only the
/// fields that have a type matter: commands read no others, which change while the VM runs, as do the addresses of
/// interfaces and the times of conditions. The specification is compared as JSON, since hooks read it.
pub(super) fn is_equal_vmi(left: &Vmi, right: &Vmi) -> bool {
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
        && left.status == right.status
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn request(edit: impl FnOnce(&mut Value)) -> SyncRequest {
        let mut vmi = json!({
            "metadata": {"name": "vm1", "namespace": "default", "uid": "1234", "resourceVersion": "7"},
            "spec": {"domain": {"cpu": {"cores": 1}}},
            "status": {
                "phase": "Running",
                "interfaces": [{"name": "default", "mac": "02:00:00:00:00:01", "ipAddress": "10.0.2.2"}],
                "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null}],
                "memory": {"guestAtBoot": "1Gi"},
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
            |vmi: &mut Value| vmi["status"]["currentCPUTopology"] = json!({"cores": 1}),
            |vmi: &mut Value| vmi["status"]["volumeStatus"] = json!(null),
            |vmi: &mut Value| {
                vmi["status"]["conditions"][0]["lastProbeTime"] = json!("2026-11-28T12:00:00Z");
            },
            |vmi: &mut Value| vmi["status"]["memory"]["guestAtBoot"] = json!("1024Mi"),
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
            |vmi: &mut Value| vmi["status"]["conditions"][0]["type"] = json!("Paused"),
            |vmi: &mut Value| vmi["status"]["memory"]["guestAtBoot"] = json!("2Gi"),
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
