//! Parses the sidecars in annotations and containers on the pages.

use serde::Deserialize;
use serde_json::Value;

use crate::yaml_blocks::documents;

/// The annotation with KubeVirt's hook sidecars.
const SIDECARS_ANNOTATION: &str = "hooks.kubevirt.io/hookSidecars";

/// A sidecar in the annotation, with the fields that KubeVirt reads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sidecar {
    pub(crate) image: String,
    #[serde(rename = "imagePullPolicy")]
    _image_pull_policy: String,
    pub(crate) args: Option<Vec<String>>,
    #[serde(rename = "configMap")]
    pub(crate) config_map: Option<ConfigMap>,
    pub(crate) pvc: Option<Claim>,
}

/// The key of a ConfigMap that is mounted as a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ConfigMap {
    pub(crate) name: String,
    pub(crate) key: String,
    pub(crate) hook_path: String,
}

/// A claim that is mounted as a directory.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Claim {
    #[serde(rename = "name")]
    _name: String,
    pub(crate) volume_path: String,
}

/// The sidecars in annotations and containers of these objects.
pub(crate) fn sidecars(text: &str) -> Vec<Sidecar> {
    let objects = documents(text).unwrap_or_default();
    let mut sidecars = Vec::new();
    for object in &objects {
        sidecars.extend(plugin_sidecar(object));
        let template = object.get("spec").and_then(|spec| spec.get("template"));
        let annotations = template.unwrap_or(object).get("metadata");
        let annotations = annotations.and_then(|metadata| metadata.get("annotations"));
        if let Some(list) = annotations.and_then(|all| all.get(SIDECARS_ANNOTATION)?.as_str()) {
            let parsed: Vec<Sidecar> = serde_json::from_str(list).unwrap();
            sidecars.extend(parsed);
        }
    }
    sidecars
}

/// The sidecar of a plugin's container, if the object is such a container.
fn plugin_sidecar(object: &Value) -> Option<Sidecar> {
    let arguments = object.get("args")?.as_array()?.iter();
    let arguments = arguments.filter_map(Value::as_str).map(str::to_owned);
    Some(Sidecar {
        image: "IMAGE".to_owned(),
        _image_pull_policy: String::new(),
        args: Some(arguments.collect()),
        config_map: None,
        pvc: Some(Claim {
            _name: String::new(),
            volume_path: "/hooks".to_owned(),
        }),
    })
}
