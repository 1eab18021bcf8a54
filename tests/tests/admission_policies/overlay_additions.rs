//! Tests that each overlay of `deploy/` with this project's launcher adds the volumes and arguments that a launcher
//! pod's annotations request, and changes no other pod.

use serde_json::Value as Json;

use crate::admission_request::Request;
use crate::emulated_kustomize::{overlay, server};
use crate::pod_additions::additions;
use crate::pod_corpus::{annotated, compute, pods, starts_a_vm, stock_pods};
use crate::shipped_policies::annotation_policies;

const LAUNCHER_IMAGE: &str = "registry.example/virt-launcher:v1.9.0-wasm";

/// Sets the image of the container `compute`, as the canary policy does.
fn set_image(pod: &mut Json, image: &str) {
    let containers = pod["spec"]["containers"].as_array_mut().unwrap();
    for container in containers {
        if container["name"] == "compute" {
            container["image"] = image.into();
        }
    }
}

#[test]
fn launcher_pods_get_what_they_ask_for_under_each_overlay() {
    for (name, version) in [
        ("whole-cluster", "v1"),
        ("canary", "v1"),
        ("whole-cluster-v1beta1", "v1beta1"),
        ("canary-v1beta1", "v1beta1"),
    ] {
        let server = server(version, overlay(name));
        let canary = name.starts_with("canary");
        let corpus = if canary { stock_pods() } else { pods() };
        for (policy, annotations, expected) in annotation_policies() {
            for (pod_name, pod) in &corpus {
                let case = format!("{name}: {policy}: {pod_name}");
                let mut pod = annotated(pod.clone(), annotations);
                if canary {
                    pod["metadata"]["labels"]["wasm-hooks.example.com/canary"] = "true".into();
                }
                let stored = server.admit(Request::create(pod.clone())).unwrap();
                if !starts_a_vm(pod_name) {
                    assert_eq!(stored, pod, "{case}");
                    continue;
                }
                assert_eq!(compute(&stored)["image"], LAUNCHER_IMAGE, "{case}");
                set_image(&mut pod, LAUNCHER_IMAGE);
                assert_eq!(additions(&pod, &stored), expected, "{case}");
            }
        }
    }
}
