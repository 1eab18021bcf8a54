//! Tests the kustomizations of `deploy/`: their policies, their effect on pods, and the patches of the KubeVirt object.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value as Json, json};
use tests::binaries::workspace;

use crate::admission_request::Request;
use crate::emulated_kustomize::{add_kustomization_directories, overlay, render, server};
use crate::pod_corpus::{annotated, compute, pod, pods, stock_pod, stock_pods, virtual_machine};
use crate::policy_files::documents;

#[test]
fn every_directory_renders() {
    let mut directories = Vec::new();
    add_kustomization_directories(&workspace().join("deploy"), &mut directories);
    assert_eq!(directories.len(), 13, "{directories:?}");
    for directory in directories {
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
    let whole_cluster: BTreeSet<String> = launcher.map(str::to_owned).into();
    let mut canary = whole_cluster.clone();
    canary.insert("wasm-launcher-canary".to_owned());
    for version in ["", "-v1beta1"] {
        assert_eq!(
            names(&overlay(&format!("whole-cluster{version}"))),
            whole_cluster
        );
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
        for (directory_name, pod) in rendered {
            let stored = server.admit(Request::create(pod.clone())).unwrap();
            assert_eq!(stored, pod, "{name}: {directory_name}");
        }
        let hooks = [
            ("image", "registry.example/hooks:1"),
            ("standing", "banner"),
        ];
        let annotated_pod = annotated(pod("no-image-volume"), &hooks);
        let stored = server
            .admit(Request::create(annotated_pod.clone()))
            .unwrap();
        assert_eq!(stored == annotated_pod, name == "serve", "{name}");
        // KubeVirt's launcher would not run the hooks.
        let annotated_pod = annotated(stock_pod("no-image-volume"), &hooks);
        let stored = server.admit(Request::create(annotated_pod.clone()));
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
        let mut annotated_pod = annotated(stock_pod("no-image-volume"), &hooks);
        let error = server
            .admit(Request::create(annotated_pod.clone()))
            .unwrap_err();
        let hint = "the label wasm-hooks.example.com/canary: 'true'";
        assert!(error.contains(hint), "{name}: {error}");
        annotated_pod["metadata"]["labels"]["wasm-hooks.example.com/canary"] = "true".into();
        let stored = server.admit(Request::create(annotated_pod)).unwrap();
        let image = "registry.example/virt-launcher:v1.9.0-wasm";
        assert_eq!(compute(&stored)["image"], image, "{name}");
    }
}

/// The objects after the replacements of domain and registry that the guide describes.
fn with_replaced_names(objects: &[Json]) -> Vec<Json> {
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
        let changed = server(version, with_replaced_names(&shipped));
        let shipped = server(version, shipped);
        let hooks = [("config-maps", "banner")];
        let instance = json!({"kind": "VirtualMachineInstance", "metadata": {"name": "web"}});
        for object in [virtual_machine(&hooks), annotated(instance, &hooks)] {
            shipped.admit(Request::create(object.clone())).unwrap();
            let error = changed.admit(Request::create(object.clone())).unwrap_err();
            let words = "wasm-hooks.example.com have no effect in this cluster, whose policies have the domain hooks.corp.example";
            assert!(error.contains(words), "{name}: {error}");
            let [object] = &with_replaced_names(&[object])[..] else {
                panic!("one object");
            };
            changed.admit(Request::create(object.clone())).unwrap();
        }
    }
}

/// Applies the patch and the removal to a KubeVirt object without the patched fields.
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
