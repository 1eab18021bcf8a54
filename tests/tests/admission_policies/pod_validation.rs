//! The validation of a pod's volumes and mounts in the emulated API server.

use std::collections::BTreeSet;

use serde_json::Value as Json;

/// Removes image volumes and their mounts, as a server without the feature gate ImageVolume does.
pub(crate) fn drop_image_volumes(pod: &mut Json) {
    let volumes = pod["spec"]["volumes"].as_array_mut().unwrap();
    let images: BTreeSet<_> = volumes
        .iter()
        .filter(|volume| volume.get("image").is_some())
        .map(|volume| volume["name"].to_string())
        .collect();
    volumes.retain(|volume| volume.get("image").is_none());
    for container in pod["spec"]["containers"].as_array_mut().unwrap() {
        if let Some(mounts) = container["volumeMounts"].as_array_mut() {
            mounts.retain(|mount| !images.contains(&mount["name"].to_string()));
        }
    }
}

/// Validates volumes and mounts as Kubernetes does.
pub(crate) fn validate_pod(pod: &Json) -> Result<(), String> {
    let none = Vec::new();
    let volumes = pod["spec"]["volumes"].as_array().unwrap_or(&none);
    let label = regex::Regex::new("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$").unwrap();
    let mut names = BTreeSet::new();
    for (index, volume) in volumes.iter().enumerate() {
        let name = volume["name"].as_str().unwrap();
        if !label.is_match(name) {
            return Err(format!(
                "spec.volumes[{index}].name: Invalid value: {name:?}: a lowercase RFC 1123 label"
            ));
        }
        if !names.insert(name) {
            return Err(format!(
                "spec.volumes[{index}].name: Duplicate value: {name:?}"
            ));
        }
        if volume["image"]["reference"] == "" {
            return Err(format!(
                "spec.volumes[{index}].image.reference: Required value"
            ));
        }
    }
    for container in pod["spec"]["containers"].as_array().unwrap() {
        let mut paths = BTreeSet::new();
        for mount in container["volumeMounts"].as_array().unwrap_or(&none) {
            let text = |key: &str| mount[key].as_str().unwrap_or_default();
            let (name, path, sub_path) = (text("name"), text("mountPath"), text("subPath"));
            if !names.contains(name) {
                return Err(format!("volumeMounts.name: Not found: {name:?}"));
            }
            if path.is_empty() || !paths.insert(path) {
                return Err(format!(
                    "mountPath: Invalid value: {path:?}: must be unique"
                ));
            }
            if sub_path.starts_with('/') {
                return Err(format!(
                    "subPath: Invalid value: {sub_path:?}: must be a relative path"
                ));
            }
            if sub_path.split('/').any(|step| step == "..") {
                return Err(format!(
                    "subPath: Invalid value: {sub_path:?}: must not contain '..'"
                ));
            }
        }
    }
    Ok(())
}
