//! Kubernetes events, which virt-handler creates for the launcher.

use serde::Serialize;

/// A Kubernetes event of type `Warning` about the VMI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The event's reason: one word in CamelCase.
    pub reason: &'static str,
    /// The event's message, for the VM's owner.
    pub message: String,
}

/// The VMI that an event is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InvolvedObject {
    /// Name of the VMI.
    pub name: String,
    /// Namespace of the VMI.
    pub namespace: String,
    /// UID of the VMI.
    pub uid: String,
}

/// A `v1.Event` as Go encodes it: the fields without `omitempty` are present.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventJson<'a> {
    metadata: MetadataJson,
    involved_object: ObjectReferenceJson<'a>,
    reason: &'a str,
    message: &'a str,
    source: Empty,
    first_timestamp: Option<()>,
    last_timestamp: Option<()>,
    #[serde(rename = "type")]
    severity: &'a str,
    event_time: Option<()>,
    reporting_component: &'a str,
    reporting_instance: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MetadataJson {
    creation_timestamp: Option<()>,
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectReferenceJson<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    api_version: &'a str,
}

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    Normal,
    Warning,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }

    /// The JSON of an event of this type, which virt-handler decodes.
    pub(super) fn event_json(
        self,
        reason: &str,
        message: &str,
        involved: &InvolvedObject,
    ) -> Vec<u8> {
        let event = EventJson {
            metadata: MetadataJson {
                creation_timestamp: None,
            },
            involved_object: ObjectReferenceJson {
                kind: "VirtualMachineInstance",
                namespace: &involved.namespace,
                name: &involved.name,
                uid: &involved.uid,
                api_version: "kubevirt.io/v1",
            },
            reason,
            message,
            source: Empty {},
            first_timestamp: None,
            last_timestamp: None,
            severity: self.name(),
            event_time: None,
            reporting_component: "",
            reporting_instance: "",
        };
        serde_json::to_vec(&event).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_is_encoded_as_a_kubernetes_event() {
        let involved = InvolvedObject {
            name: "vm1".into(),
            namespace: "default".into(),
            uid: "1234".into(),
        };
        let encode = |severity: Severity| -> serde_json::Value {
            let json = severity.event_json("HookDenied", "hook policy refuses", &involved);
            serde_json::from_slice(&json).unwrap()
        };
        assert_eq!(encode(Severity::Normal)["type"], "Normal");
        let json = encode(Severity::Warning);
        assert_eq!(json["involvedObject"]["kind"], "VirtualMachineInstance");
        assert_eq!(json["involvedObject"]["apiVersion"], "kubevirt.io/v1");
        assert_eq!(json["involvedObject"]["uid"], "1234");
        assert_eq!(json["type"], "Warning");
        assert_eq!(json["reason"], "HookDenied");
        assert!(json["metadata"]["creationTimestamp"].is_null());
    }
}
