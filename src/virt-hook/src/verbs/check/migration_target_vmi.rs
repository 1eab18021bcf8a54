//! The VMI of a VM that arrives on another node.

use serde_json::{Value, json};

const TARGET_NODE: &str = "another-node";

/// The VMI with the labels and the status that KubeVirt's controllers write for another node. The rest of its metadata
/// and its spec are the same on every node.
pub(super) fn on_another_node(vmi: &str) -> serde_json::Result<String> {
    let mut vmi: Value = serde_json::from_str(vmi)?;
    let on_node = json!({
        "metadata": {"labels": {
            "kubevirt.io/nodeName": TARGET_NODE,
            "kubevirt.io/migrationTargetNodeName": TARGET_NODE,
        }},
        "status": {
            "nodeName": TARGET_NODE,
            "phase": "Running",
            "activePods": {"a3b9e1f0-0000-4000-8000-00000000000b": TARGET_NODE},
            "migrationState": {
                "migrationUid": "a3b9e1f0-0000-4000-8000-00000000000c",
                "sourceNode": "first-node",
                "sourcePod": "virt-launcher-first",
                "targetNode": TARGET_NODE,
                "targetPod": "virt-launcher-another",
            },
        },
    });
    merge(&mut vmi, on_node);
    Ok(vmi.to_string())
}

/// Merges the members of `more` into `value`, recursively.
fn merge(value: &mut Value, more: Value) {
    match (value, more) {
        (Value::Object(members), Value::Object(more)) => {
            for (name, more) in more {
                merge(members.entry(name).or_insert(Value::Null), more);
            }
        }
        (value, more) => *value = more,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_labels_and_status_that_name_the_node_are_replaced() {
        let vmi = json!({
            "metadata": {"name": "vm", "labels": {"app": "shop", "kubevirt.io/nodeName": "n"}},
            "spec": {"domain": {"memory": {"guest": "64Mi"}}},
            "status": {"nodeName": "n", "interfaces": [{"name": "default"}]},
        });
        let text = on_another_node(&vmi.to_string()).unwrap();
        let arriving: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(arriving["spec"], vmi["spec"]);
        assert_eq!(arriving["metadata"]["labels"]["app"], "shop");
        assert_eq!(
            arriving["status"]["interfaces"],
            vmi["status"]["interfaces"]
        );
        assert_eq!(arriving["status"]["nodeName"], TARGET_NODE);
        assert_eq!(
            arriving["metadata"]["labels"]["kubevirt.io/nodeName"],
            TARGET_NODE
        );
        assert!(!text.contains("\"n\""), "{text}");
    }

    #[test]
    fn a_vmi_without_status_gets_one() {
        let text = on_another_node(r#"{"metadata": {"labels": null}, "status": 5}"#).unwrap();
        let arriving: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(arriving["status"]["nodeName"], TARGET_NODE);
    }
}
