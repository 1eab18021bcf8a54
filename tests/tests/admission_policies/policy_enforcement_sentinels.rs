//! Sentinel policies, which show when a real API server enforces the policies that were created before them.

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::kube_client::KubeClient;

/// The label of the ConfigMaps to which the sentinels apply.
const SENTINEL_LABEL: &str = "admission-test";
/// How long the server may take to enforce new policies: usually a second, more on a loaded machine.
const ENFORCEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// A mutating and a validating policy that only apply to ConfigMaps with the sentinel's label.
pub(crate) fn sentinels(name: &str) -> [Json; 4] {
    let constraints = json!({
        "objectSelector": {"matchLabels": {SENTINEL_LABEL: name}},
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
    });
    let patch =
        format!("[JSONPatch{{op: \"add\", path: \"/data\", value: {{\"sentinel\": \"{name}\"}}}}]");
    let metadata = json!({"name": name});
    [
        json!({"kind": "MutatingAdmissionPolicy", "metadata": metadata, "spec": {
            "failurePolicy": "Fail", "reinvocationPolicy": "Never", "matchConstraints": constraints,
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}]}}),
        json!({"kind": "MutatingAdmissionPolicyBinding", "metadata": metadata, "spec": {"policyName": name}}),
        json!({"kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": {
            "failurePolicy": "Fail", "matchConstraints": constraints,
            "validations": [{"expression": "object.metadata.labels['refused'] != 'true'", "message": name}]}}),
        json!({"kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata,
            "spec": {"policyName": name, "validationActions": ["Deny"]}}),
    ]
}

/// Waits until both sentinel policies have an effect: the server enforces policies in the order of their creation.
pub(crate) fn wait_for_sentinels(client: &KubeClient, sentinel: &str) {
    let probe = |refused: bool| {
        let labels = json!({SENTINEL_LABEL: sentinel, "refused": refused.to_string()});
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "probe", "namespace": "default", "labels": labels}})
    };
    let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
    let started = Instant::now();
    loop {
        let changed = client.send("POST", path, &probe(false));
        let refused = client.send("POST", path, &probe(true));
        let changed = changed.is_ok_and(|stored| stored["data"]["sentinel"] == sentinel);
        if changed && refused.is_err_and(|error| error.contains(sentinel)) {
            return;
        }
        assert!(
            started.elapsed() < ENFORCEMENT_TIMEOUT,
            "{sentinel} is not in force"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}
