//! `deploy/` renders, with the part of kustomize that it uses: `resources` and `configMapGenerator`. `scripts/test-apiserver`
//! renders it with kubectl.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use tests::binaries::workspace;

use crate::emulated_api_server::{ApiServer, Request};
use crate::pod_corpus::{annotated, compute, pod, pods, stock_pod, stock_pods, virtual_machine};
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

/// The objects of a directory of `deploy`.
pub(crate) fn render(directory: &Path) -> Vec<Json> {
    let at = directory.display();
    let text = fs::read_to_string(directory.join("kustomization.yaml")).unwrap();
    let kustomization: Kustomization =
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{at}: {error}"));
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
        assert_eq!(*options, json!({"disableNameSuffixHash": true}), "{at}");
        let file = |name: &String| {
            let text = fs::read_to_string(directory.join(name)).unwrap();
            (name.clone(), Json::from(text))
        };
        let data: Map<_, _> = map.files.iter().map(file).collect();
        objects.push(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": map.name}, "data": data}));
    }
    let ids = objects.iter().map(|object| {
        let id = [
            &object["apiVersion"],
            &object["kind"],
            &object["metadata"]["name"],
        ];
        id.map(|part| {
            part.as_str()
                .unwrap_or_else(|| panic!("{at}: {object}"))
                .to_owned()
        })
    });
    let ids: Vec<_> = ids.collect();
    let different: BTreeSet<_> = ids.iter().collect();
    // kustomize refuses an object that is there twice.
    assert_eq!(different.len(), ids.len(), "{at}: {ids:?}");
    objects
}

/// Every directory of `deploy` with a kustomization.
pub(crate) fn directories(below: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            directories(&path, found);
        } else if path.ends_with("kustomization.yaml") {
            found.push(path.parent().unwrap().to_owned());
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

#[test]
fn every_directory_renders() {
    let mut found = Vec::new();
    directories(&workspace().join("deploy"), &mut found);
    assert_eq!(found.len(), 13, "{found:?}");
    for directory in found {
        assert!(!render(&directory).is_empty(), "{}", directory.display());
    }
}

#[test]
fn overlays_have_the_policies_that_their_route_needs() {
    let names = |objects: &[Json]| -> BTreeSet<String> {
        let policies = objects.iter().filter(|object| {
            let kind = object["kind"].as_str().unwrap();
            kind.ends_with("AdmissionPolicy")
        });
        policies
            .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let launcher = [
        "wasm-hooks",
        "wasm-hooks-by-namespace",
        "wasm-hooks-claim",
        "wasm-hooks-config-map",
        "wasm-hooks-guard",
        "wasm-hooks-namespace-guard",
        "wasm-standing-hooks",
    ];
    let whole: BTreeSet<String> = launcher.map(str::to_owned).into();
    let mut canary = whole.clone();
    canary.insert("wasm-launcher-canary".to_owned());
    for version in ["", "-v1beta1"] {
        assert_eq!(names(&overlay(&format!("whole-cluster{version}"))), whole);
        assert_eq!(names(&overlay(&format!("canary{version}"))), canary);
    }
    let serve = BTreeSet::from(["wasm-hooks-sidecar-images".to_owned()]);
    assert_eq!(names(&overlay("serve")), serve);
}

#[test]
fn overlays_change_no_pod_that_does_not_ask() {
    for (name, version) in [
        ("whole-cluster", "v1"),
        ("canary", "v1"),
        ("serve", "v1"),
        ("whole-cluster-v1beta1", "v1beta1"),
        ("canary-v1beta1", "v1beta1"),
    ] {
        let server = server(version, overlay(name));
        let rendered = match name.starts_with("whole-cluster") {
            true => pods(),
            false => stock_pods(),
        };
        for (at, pod) in rendered {
            let stored = server.admit(Request::create(pod.clone())).unwrap();
            assert_eq!(stored, pod, "{name}: {at}");
        }
        let hooks = [
            ("image", "registry.example/hooks:1"),
            ("standing", "banner"),
        ];
        let asking = annotated(pod("no-image-volume"), &hooks);
        let stored = server.admit(Request::create(asking.clone())).unwrap();
        assert_eq!(stored == asking, name == "serve", "{name}");
        // With KubeVirt's launcher the hooks would not run.
        let asking = annotated(stock_pod("no-image-volume"), &hooks);
        let stored = server.admit(Request::create(asking.clone()));
        assert_eq!(stored.is_ok(), name == "serve", "{name}: {stored:?}");
    }
}

#[test]
fn the_canarys_label_gives_a_vm_with_hooks_the_launcher_that_runs_them() {
    let hooks = [
        ("image", "registry.example/hooks:1"),
        ("standing", "banner"),
    ];
    for (name, version) in [("canary", "v1"), ("canary-v1beta1", "v1beta1")] {
        let server = server(version, overlay(name));
        let mut asking = annotated(stock_pod("no-image-volume"), &hooks);
        let error = server.admit(Request::create(asking.clone())).unwrap_err();
        let way_out = "the label wasm-hooks.example.com/canary: 'true'";
        assert!(error.contains(way_out), "{name}: {error}");
        asking["metadata"]["labels"]["wasm-hooks.example.com/canary"] = "true".into();
        let stored = server.admit(Request::create(asking)).unwrap();
        let image = "registry.example/virt-launcher:v1.9.0-wasm";
        assert_eq!(compute(&stored)["image"], image, "{name}");
    }
}

/// The objects after the replacements of the guide.
fn with_own_names(objects: &[Json]) -> Vec<Json> {
    let text = Json::from(objects).to_string();
    let text = text.replace("wasm-hooks.example.com", "hooks.corp.example");
    let text = text.replace("registry.example/", "registry.corp.example/");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn annotations_of_the_files_own_domain_are_refused_where_the_policies_have_another() {
    let guide = fs::read_to_string(workspace().join("docs/guide.md")).unwrap();
    let sed = r"sed 's#wasm-hooks\.example\.com#hooks.corp.example#g; s#registry\.example/#registry.corp.example/#g'";
    assert!(guide.contains(sed), "the guide replaces other names");
    for (name, version) in [("canary", "v1"), ("whole-cluster-v1beta1", "v1beta1")] {
        let shipped = overlay(name);
        let changed = server(version, with_own_names(&shipped));
        let shipped = server(version, shipped);
        let hooks = [("config-maps", "banner")];
        let instance = json!({"kind": "VirtualMachineInstance", "metadata": {"name": "web"}});
        for object in [virtual_machine(&hooks), annotated(instance, &hooks)] {
            shipped.admit(Request::create(object.clone())).unwrap();
            let error = changed.admit(Request::create(object.clone())).unwrap_err();
            let words = "wasm-hooks.example.com have no effect in this cluster, whose policies have the domain hooks.corp.example";
            assert!(error.contains(words), "{name}: {error}");
            let [object] = &with_own_names(&[object])[..] else {
                panic!("one object");
            };
            changed.admit(Request::create(object.clone())).unwrap();
        }
    }
}

/// The patches of the KubeVirt object, on one that has nothing of the kind.
#[test]
fn removals_undo_what_the_patches_did() {
    let feature_gates = "/spec/configuration/developerConfiguration/featureGates";
    for (name, pointer) in [
        ("whole-cluster", "/spec/customizeComponents/patches"),
        ("serve", feature_gates),
    ] {
        let patch =
            |file: &str| documents(&format!("deploy/overlays/{name}/{file}.yaml"))[0].clone();
        let mut object = json!({"kind": "KubeVirt", "spec": {"imagePullPolicy": "IfNotPresent"}});
        json_patch::merge(&mut object, &patch("kubevirt-patch"));
        let list = object.pointer(pointer).and_then(Json::as_array);
        assert_eq!(list.map(Vec::len), Some(1), "{name}");
        json_patch::merge(&mut object, &patch("kubevirt-removal"));
        let list = object.pointer(pointer).and_then(Json::as_array);
        assert_eq!(list.map_or(0, Vec::len), 0, "{name}");
        assert_eq!(object["spec"]["imagePullPolicy"], "IfNotPresent");
    }
}
