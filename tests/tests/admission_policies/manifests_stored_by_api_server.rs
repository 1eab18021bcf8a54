//! Tests that a real API server, which refuses unknown fields, stores the manifests of `deploy/` and `virt-hook
//! deploy`, and that their removal leaves nothing. `scripts/test-apiserver` runs these tests for each API version of
//! mutating policies.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value as Json, json};
use tests::binaries::workspace;

use crate::emulated_kustomize::{add_kustomization_directories, render};
use crate::kube_client::collection;
use crate::policy_files::documents;
use crate::real_api_server::{RealServer, real_server};
use crate::verdict_comparison::contains;
use crate::virt_hook_deploy_manifests::deploy;

/// Whether all mutating policies among the objects have the API version that is tested.
fn has_tested_version(server: &RealServer, objects: &[Json]) -> bool {
    let stored_count = format!("admissionregistration.k8s.io/{}", server.version);
    let mut mutating = objects.iter().filter(|object| {
        let kind = object["kind"].as_str().unwrap();
        kind.starts_with("Mutating")
    });
    mutating.all(|object| object["apiVersion"] == *stored_count)
}

/// The paths of all objects on the server that have the same kinds and namespaces as these objects.
fn object_names(server: &RealServer, objects: &[Json]) -> BTreeSet<String> {
    let collections: BTreeSet<String> = objects.iter().map(collection).collect();
    let mut paths = BTreeSet::new();
    for path in collections {
        let list = server.client.send("GET", &path, &Json::Null).unwrap();
        for item in list["items"].as_array().unwrap() {
            paths.insert(format!("{path}/{}", item["metadata"]["name"]));
        }
    }
    paths
}

/// Stores the objects, compares them with the stored objects, and removes them.
fn store_and_remove(server: &mut RealServer, source: &str, objects: &[Json]) {
    assert!(!objects.is_empty(), "{source}");
    server.enforce(&[]);
    let before = object_names(server, objects);
    for object in objects {
        let stored = server.client.send("POST", &collection(object), object);
        let stored = stored.unwrap_or_else(|error| panic!("{source}: {object}: {error}"));
        contains(&stored, object, source).unwrap();
    }
    assert_eq!(
        object_names(server, objects).len(),
        before.len() + objects.len()
    );
    for object in objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        let path = format!("{}/{name}", collection(object));
        server.client.send("DELETE", &path, &Json::Null).unwrap();
    }
    assert_eq!(object_names(server, objects), before, "{source}");
}

/// The objects sorted by kind and name. Double line breaks are reduced, because kustomize adds one to folded text.
fn comparable(objects: &[Json]) -> Vec<Json> {
    let text = Json::from(objects).to_string().replace("\\n\\n", "\\n");
    let mut objects: Vec<Json> = serde_json::from_str(&text).unwrap();
    objects.sort_by_key(|object| {
        (
            object["kind"].to_string(),
            object["metadata"]["name"].to_string(),
        )
    });
    objects
}

#[test]
#[ignore = "needs an API server: make test-apiserver"]
fn fields_that_a_kind_does_not_have_are_refused() {
    let server = real_server();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "typo"}, "binarydata": {}});
    let error = server.client.send("POST", &collection(&object), &object);
    assert!(error.unwrap_err().contains("unknown field \"binarydata\""));
}

#[test]
#[ignore = "needs an API server: make test-apiserver"]
fn every_directory_of_deploy_is_stored_and_removed() {
    let mut directories = Vec::new();
    add_kustomization_directories(&workspace().join("deploy"), &mut directories);
    let mut server = real_server();
    let mut stored_count = 0;
    for directory in directories {
        let source = directory.display().to_string();
        let objects = render(&directory);
        let kubectl = Command::new("kubectl")
            .arg("kustomize")
            .arg(&directory)
            .output();
        let rendered = String::from_utf8(kubectl.unwrap().stdout).unwrap();
        let rendered: Vec<Json> = serde_saphyr::from_multiple(&rendered).unwrap();
        let is_same = comparable(&rendered) == comparable(&objects);
        assert!(
            is_same,
            "{source}: kubectl renders other objects: {rendered:?}"
        );
        if has_tested_version(&server, &objects) {
            store_and_remove(&mut server, &source, &objects);
            stored_count += 1;
        }
    }
    // Of 13 directories, four have no mutating policies.
    assert!(stored_count > 4, "{stored_count}");
}

#[test]
#[ignore = "needs an API server: make test-apiserver"]
fn manifests_of_virt_hook_deploy_are_stored_and_removed() {
    let hooks = ["--image", "registry.example/hooks:1"];
    let program = ["--image", "registry.example/virt-hook:0.1", "--vm", "-"];
    let scope = ["--label", "tier=gpu", "--for-namespace", "shop"];
    let vm = ["--vm", "-", "--namespace", "default"];
    let mut server = real_server();
    let version = server.version.clone();
    let api = ["--api-version", &version];
    for (route, options) in [
        ("configmap", vm.to_vec()),
        ("image", [&hooks[..], &vm].concat()),
        ("image", [&hooks[..], &vm, &["--counted"]].concat()),
        ("plugin", [&hooks[..], &api].concat()),
        ("plugin", [&hooks[..], &api, &scope[..2]].concat()),
        ("plugin", [&hooks[..], &api, &scope[2..]].concat()),
        ("plugin", [&hooks[..], &api, &scope].concat()),
        ("sidecar", program.to_vec()),
    ] {
        let objects = deploy(&[&["--as", route][..], &options].concat());
        assert!(has_tested_version(&server, &objects));
        store_and_remove(&mut server, &format!("{route} {options:?}"), &objects);
    }
}

#[test]
#[ignore = "needs an API server: make test-apiserver"]
fn patches_of_the_kubevirt_object_are_taken_back() {
    let mut server = real_server();
    server.enforce(&[]);
    let object = json!({"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
        "metadata": {"name": "kubevirt"}, "spec": {"imagePullPolicy": "IfNotPresent"}});
    server
        .client
        .send("POST", &collection(&object), &object)
        .unwrap();
    let path = format!("{}/kubevirt", collection(&object));
    for (name, pointer) in [
        ("whole-cluster", "/spec/customizeComponents/patches"),
        (
            "serve",
            "/spec/configuration/developerConfiguration/featureGates",
        ),
    ] {
        for (file, items) in [("kubevirt-patch", 1), ("kubevirt-removal", 0)] {
            let patch = &documents(&format!("deploy/overlays/{name}/{file}.yaml"))[0];
            let stored = server.client.send("PATCH", &path, patch).unwrap();
            let list = stored.pointer(pointer).and_then(Json::as_array);
            assert_eq!(list.map_or(0, Vec::len), items, "{name}: {file}");
            contains(&stored, &object, name).unwrap();
        }
    }
    server.client.send("DELETE", &path, &Json::Null).unwrap();
}
