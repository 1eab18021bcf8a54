//! The manifests for a module: ConfigMap, sidecar entry, Plugin, admission policy.

use anyhow::anyhow;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sigstore_bundle::SUFFIX;

use super::super::deploy;
use crate::verb_failure::Failure;
use crate::verbs::image::{HOOK_YAML, MODULE_FILE, PackedHook};

/// The directory of the sockets and modules of Plugins, in the launcher or the sidecar.
const PLUGINS_DIR: &str = "/var/run/kubevirt-plugin";
/// The value of the label `kubevirt.io` that only the pods of launchers have.
const LAUNCHER_LABEL: &str = "virt-launcher";
/// Which of these pods start a VM: all but the temporary ones that bind volume claims, whose container `compute` runs a
/// shell. `deploy/admission` has the same expression.
const STARTS_A_VM: &str = "\
    !object.spec.containers.exists(c, c.name == 'compute' \
    && c.?command[?0].orValue('').matches('^(/usr)?/bin/(ba)?sh$') \
    && !(c.?command.orValue([]) + c.?args.orValue([])).exists(w, \
    w.contains('virt-launcher') || w.contains('--hook-sidecars')))";

/// A ConfigMap with all files of a hook.
pub(super) fn config_map(hook: &PackedHook, namespace: &str) -> Value {
    let mut object = module_config_map(hook, namespace, MODULE_FILE);
    let mut texts = Map::new();
    if let Some(yaml) = &hook.hook_yaml {
        let yaml = String::from_utf8_lossy(yaml).into_owned();
        texts.insert(HOOK_YAML.to_owned(), yaml.into());
    }
    if let Some(signature) = &hook.signature {
        texts.insert(format!("{MODULE_FILE}{SUFFIX}"), signature.clone().into());
    }
    if !texts.is_empty() {
        object["data"] = texts.into();
    }
    object
}

/// A ConfigMap with the module alone.
pub(super) fn module_config_map(hook: &PackedHook, namespace: &str, key: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": hook.name, "namespace": namespace},
        "binaryData": {key: STANDARD.encode(&hook.module)},
    })
}

/// An entry of KubeVirt's annotation of hook sidecars.
pub(super) fn sidecar_entry(hook: &PackedHook, image: &str, policy: &Value) -> Value {
    let path = format!("/hooks/{}.wasm", hook.name);
    json!({
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["serve", "--module", path, "--policy", policy.to_string()],
        "configMap": {"name": hook.name, "key": MODULE_FILE, "hookPath": path},
    })
}

/// A Plugin whose sidecar is the module.
pub(super) fn plugin(name: &str, scope: &PluginScope) -> Value {
    let mut plugin = json!({
        "apiVersion": "plugin.kubevirt.io/v1alpha1",
        "kind": "Plugin",
        "metadata": {"name": name},
        "spec": {
            "failureStrategy": "Fail",
            "domainHooks": [{"sidecar": {"socketPath": format!("{PLUGINS_DIR}/{name}/hook.sock")}, "timeout": "10s"}],
        },
    });
    if let Some(condition) = scope.condition() {
        plugin["spec"]["condition"] = condition.into();
    }
    plugin
}

/// The admission policy that mounts a Plugin's module into the pods of launchers, and its binding.
pub(super) fn plugin_mount_policy(
    name: &str,
    image: &str,
    api_version: &str,
    scope: &PluginScope,
) -> [Value; 2] {
    let object = format!("wasm-plugin-{name}");
    let api = format!("admissionregistration.k8s.io/{api_version}");
    // The names have no characters that CEL or JSON quote.
    let patch = format!(
        "[JSONPatch{{op: \"add\", path: \"/spec/volumes/-\", value: Object.spec.volumes{{\n\
        \x20 name: \"{object}\", image: Object.spec.volumes.image{{\n\
        \x20   reference: \"{image}\", pullPolicy: \"IfNotPresent\"}}}}}},\n\
        \x20JSONPatch{{op: \"add\", path: \"/spec/containers/\" + string(variables.compute) + \"/volumeMounts/-\",\n\
        \x20 value: Object.spec.containers.volumeMounts{{\n\
        \x20   name: \"{object}\", mountPath: \"{PLUGINS_DIR}/{name}\", subPath: \"{name}\", readOnly: true}}}}]\n"
    );
    let mut policy = json!({
        "apiVersion": api,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": object},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "objectSelector": {"matchLabels": {"kubevirt.io": LAUNCHER_LABEL}},
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
                ],
            },
            "matchConditions": [{
                "name": "starts-a-vm",
                "expression": STARTS_A_VM,
            }],
            "variables": [{
                "name": "compute",
                "expression": "object.spec.containers.map(c, c.name).indexOf('compute')",
            }],
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
        },
    });
    scope.constrain(&mut policy["spec"]["matchConstraints"]);
    let binding = json!({
        "apiVersion": api,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": object},
        "spec": {"policyName": object},
    });
    [policy, binding]
}

/// A label and a namespace, for the Plugin's condition and the selectors of the admission policy.
#[derive(Debug, Default)]
pub(super) struct PluginScope {
    label: Option<(String, String)>,
    namespace: Option<String>,
}

impl PluginScope {
    /// Parses the label `KEY=VALUE`, and checks it and the namespace.
    pub(super) fn parse(label: Option<&str>, namespace: Option<&str>) -> Result<Self, Failure> {
        let label = label.map(|label| {
            let pair = label.split_once('=');
            let pair = pair.filter(|(key, value)| deploy::is_pod_label(key, value));
            let pair = pair.map(|(key, value)| (key.to_owned(), value.to_owned()));
            pair.ok_or_else(|| {
                Failure::usage(anyhow!(
                    "--label {label}: it is not a label of Kubernetes: KEY=VALUE, such as wasm-hooks.example.com/canary=true"
                ))
            })
        });
        let namespace = namespace.map(|name| {
            deploy::check_namespace("--for-namespace", name)?;
            Ok(name.to_owned())
        });
        Ok(Self {
            label: label.transpose()?,
            namespace: namespace.transpose()?,
        })
    }

    /// Whether the Plugin is for every VM of the cluster.
    pub(super) fn is_all(&self) -> bool {
        self.label.is_none() && self.namespace.is_none()
    }

    /// The Plugin's condition. Labels and names have no characters that CEL quotes.
    pub(super) fn condition(&self) -> Option<String> {
        let label = self.label.as_ref();
        let label = label.map(|(key, value)| {
            format!("'{key}' in vmi.Labels && vmi.Labels['{key}'] == '{value}'")
        });
        let namespace = self.namespace.as_ref();
        let namespace = namespace.map(|name| format!("vmi.Namespace == '{name}'"));
        let parts: Vec<String> = label.into_iter().chain(namespace).collect();
        (!parts.is_empty()).then(|| parts.join(" && "))
    }

    /// Adds label and namespace to the constraints of an admission policy for pods: KubeVirt copies a VM's labels to
    /// its pod.
    pub(super) fn constrain(&self, constraints: &mut Value) {
        if let Some((key, value)) = &self.label {
            constraints["objectSelector"]["matchLabels"][key] = value.as_str().into();
        }
        if let Some(name) = &self.namespace {
            let labels = json!({"kubernetes.io/metadata.name": name});
            constraints["namespaceSelector"] = json!({"matchLabels": labels});
        }
    }
}
