//! The VMs that a Plugin is for.

use anyhow::anyhow;
use serde_json::{Value, json};

use super::kubernetes_names;
use crate::verb_failure::Failure;

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
            let pair = pair.filter(|(key, value)| kubernetes_names::is_pod_label(key, value));
            let pair = pair.map(|(key, value)| (key.to_owned(), value.to_owned()));
            pair.ok_or_else(|| {
                Failure::usage(anyhow!(
                    "--label {label}: it is not a label of Kubernetes: KEY=VALUE, such as wasm-hooks.example.com/canary=true"
                ))
            })
        });
        let namespace = namespace.map(|name| {
            kubernetes_names::check_namespace("--for-namespace", name)?;
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
