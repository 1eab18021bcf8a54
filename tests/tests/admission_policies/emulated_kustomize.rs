//! Renders the kustomizations of `deploy/`. Only the features of kustomize that `deploy/` uses are supported:
//! `resources` and `configMapGenerator`. `scripts/test-apiserver` compares the result with kubectl's.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use tests::binaries::workspace;

use crate::emulated_api_server::ApiServer;
use crate::policy_files::{Policies, documents};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Kustomization {
    api_version: String,
    kind: String,
    resources: Vec<String>,
    #[serde(default)]
    config_map_generator: Vec<GeneratedConfigMap>,
    #[serde(default)]
    generator_options: Json,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GeneratedConfigMap {
    name: String,
    files: Vec<String>,
}

/// The objects that the kustomization of a directory renders.
pub(crate) fn render(directory: &Path) -> Vec<Json> {
    let directory_name = directory.display();
    let text = fs::read_to_string(directory.join("kustomization.yaml")).unwrap();
    let kustomization: Kustomization =
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{directory_name}: {error}"));
    assert_eq!(kustomization.api_version, "kustomize.config.k8s.io/v1beta1");
    assert_eq!(kustomization.kind, "Kustomization");
    let mut objects = Vec::new();
    for resource in &kustomization.resources {
        let path = directory.join(resource);
        match path.is_dir() {
            true => objects.extend(render(&path)),
            false => objects.extend(documents(path.to_str().unwrap())),
        }
    }
    for map in &kustomization.config_map_generator {
        let options = &kustomization.generator_options;
        assert_eq!(
            *options,
            json!({"disableNameSuffixHash": true}),
            "{directory_name}"
        );
        let file = |name: &String| {
            let text = fs::read_to_string(directory.join(name)).unwrap();
            (name.clone(), Json::from(text))
        };
        let data: Map<_, _> = map.files.iter().map(file).collect();
        objects.push(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": map.name}, "data": data}));
    }
    let identities = objects.iter().map(|object| {
        let identity = [
            &object["apiVersion"],
            &object["kind"],
            &object["metadata"]["name"],
        ];
        identity.map(|part| {
            part.as_str()
                .unwrap_or_else(|| panic!("{directory_name}: {object}"))
                .to_owned()
        })
    });
    let identities: Vec<_> = identities.collect();
    let different: BTreeSet<_> = identities.iter().collect();
    // kustomize refuses duplicate objects.
    assert_eq!(
        different.len(),
        identities.len(),
        "{directory_name}: {identities:?}"
    );
    objects
}

/// Adds every directory below `root` with a kustomization.
pub(crate) fn add_kustomization_directories(root: &Path, directories: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_kustomization_directories(&path, directories);
        } else if path.ends_with("kustomization.yaml") {
            directories.push(path.parent().unwrap().to_owned());
        }
    }
}

pub(crate) fn overlay(name: &str) -> Vec<Json> {
    render(&workspace().join("deploy/overlays").join(name))
}

pub(crate) fn server(version: &str, objects: Vec<Json>) -> ApiServer {
    let mut policies = Policies::default();
    policies.add(version, "overlay", objects);
    ApiServer::new(policies)
}
