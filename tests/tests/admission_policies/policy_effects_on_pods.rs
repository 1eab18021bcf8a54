//! Tests that the policies of `deploy/admission` add what they promise to every launcher pod, and change no other pod.

use serde_json::{Value as Json, json};

use crate::admission_request::Request;
use crate::pod_additions::{PodAdditions, additions};
use crate::pod_corpus::{annotated, compute, pod, pods, starts_a_vm, stock_pods};
use crate::shipped_policies::{
    IMAGE, annotation_policies, image_volume, server_with_policies, strings,
};

#[test]
fn launcher_pods_get_the_annotated_hooks_and_other_pods_nothing() {
    for (policy, annotations, expected) in annotation_policies() {
        let server = server_with_policies(&[policy]);
        for (name, pod) in pods() {
            let case = format!("{policy}: {name}");
            let plain = server.admit(Request::create(pod.clone())).unwrap();
            assert_eq!(plain, pod, "{case}");
            let pod = annotated(pod, annotations);
            let stored = server.admit(Request::create(pod.clone())).unwrap();
            if starts_a_vm(&name) {
                assert_eq!(additions(&pod, &stored), expected, "{case}");
            } else {
                assert_eq!(stored, pod, "{case}");
            }
        }
    }
}

#[test]
fn all_policies_work_on_one_pod() {
    let names: Vec<_> = annotation_policies()
        .iter()
        .map(|(name, ..)| *name)
        .collect();
    let server = server_with_policies(
        &[
            &names[..],
            &[
                "standing-hooks-by-namespace",
                "standing-hooks-by-label",
                "pod-info",
                "launcher-canary",
            ],
        ]
        .concat(),
    );
    let annotations = [
        IMAGE,
        ("hooks", "a"),
        ("standing", "b"),
        ("config-maps", "c"),
        ("claim", "d"),
        ("claim-hooks", "e"),
    ];
    let mut request = Request::create(annotated(pod("sidecar-one"), &annotations));
    request.namespace = annotated(request.namespace, &[IMAGE, ("standing", "f")]);
    request.object["metadata"]["labels"]["tier"] = "gpu".into();
    request.object["metadata"]["labels"]["wasm-hooks.example.com/canary"] = "true".into();
    let stored = server.admit(request.clone()).unwrap();
    assert_eq!(
        compute(&stored)["image"],
        "registry.example/virt-launcher:v1.9.0-wasm"
    );
    let mounts = compute(&stored)["volumeMounts"].as_array().unwrap();
    let paths: Vec<_> = mounts
        .iter()
        .filter_map(|mount| mount["mountPath"].as_str())
        .collect();
    for path in ["b", "c", "e", "namespace-f", "gpu-vfio", "gpu-numa"] {
        let path = format!("/etc/virt-launcher/hooks/{path}");
        assert!(paths.contains(&path.as_str()), "{path}: {paths:?}");
    }
    assert!(paths.contains(&"/var/run/kubevirt-hooks/wasm-a"));
}

/// The volumes of different policies never have the same name, however the hooks are called.
#[test]
fn hooks_can_have_the_names_of_other_routes_volumes() {
    let names: Vec<_> = annotation_policies()
        .iter()
        .map(|(name, ..)| *name)
        .collect();
    let server = server_with_policies(
        &[
            &names[..],
            &[
                "standing-hooks-by-namespace",
                "standing-hooks-by-label",
                "pod-info",
            ],
        ]
        .concat(),
    );
    let config_maps = [
        "hooks",
        "standing-hooks",
        "claim-hooks",
        "gpu-hooks",
        "pod-info",
        "config-map-hooks",
        &"x".repeat(42),
    ];
    let annotations = [
        IMAGE,
        ("hooks", "a"),
        ("standing", "b"),
        ("config-maps", &config_maps.join(",")),
        ("claim", "d"),
        ("claim-hooks", "e"),
    ];
    let plain = annotated(pod("sidecar-one"), &annotations);
    let mut request = Request::create(plain.clone());
    request.namespace = annotated(request.namespace, &[IMAGE, ("standing", "f")]);
    request.object["metadata"]["labels"]["tier"] = "gpu".into();
    let stored = server.admit(request).unwrap();
    let volumes = |pod: &Json| pod["spec"]["volumes"].as_array().unwrap().len();
    assert_eq!(volumes(&stored) - volumes(&plain), config_maps.len() + 6);
}

#[test]
fn a_namespace_chooses_for_all_of_its_vms() {
    let server = server_with_policies(&["standing-hooks-by-namespace"]);
    for (name, pod) in pods() {
        let mut request = Request::create(pod.clone());
        assert_eq!(server.admit(request.clone()).unwrap(), pod, "{name}");
        request.namespace = annotated(request.namespace, &[IMAGE, ("standing", "audit")]);
        let stored = server.admit(request).unwrap();
        if starts_a_vm(&name) {
            let expected = PodAdditions {
                volumes: vec![image_volume("wasm-namespace-hooks", IMAGE.1)],
                mounts: strings(&[
                    "wasm-namespace-hooks /etc/virt-launcher/hooks/namespace-audit audit",
                ]),
                counted: 0,
            };
            assert_eq!(additions(&pod, &stored), expected, "{name}");
        } else {
            assert_eq!(stored, pod, "{name}");
        }
    }
}

#[test]
fn a_label_chooses_hooks() {
    let server = server_with_policies(&["standing-hooks-by-label"]);
    for (name, mut pod) in pods() {
        assert_eq!(
            server.admit(Request::create(pod.clone())).unwrap(),
            pod,
            "{name}"
        );
        pod["metadata"]["labels"]["tier"] = "gpu".into();
        let stored = server.admit(Request::create(pod.clone())).unwrap();
        assert_eq!(stored != pod, starts_a_vm(&name), "{name}");
        if stored != pod {
            assert_eq!(additions(&pod, &stored).mounts.len(), 2, "{name}");
        }
    }
}

#[test]
fn launchers_and_hook_sidecars_see_the_facts_of_their_pod() {
    let server = server_with_policies(&["pod-info"]);
    for (name, pod) in pods() {
        let mut stored = server.admit(Request::create(pod.clone())).unwrap();
        if !starts_a_vm(&name) {
            assert_eq!(stored, pod, "{name}");
            continue;
        }
        let expected = json!({"name": "wasm-pod-info", "readOnly": true, "mountPath": "/etc/virt-hook/pod-info"});
        let containers = stored["spec"]["containers"].as_array_mut().unwrap();
        for container in containers {
            if container["name"]
                .as_str()
                .unwrap()
                .starts_with("hook-sidecar-")
            {
                let mounts = container["volumeMounts"].as_array_mut().unwrap();
                assert_eq!(mounts.pop(), Some(expected.clone()), "{name}");
            }
        }
        let item = |path, field: &str| json!({"path": path, "fieldRef": {"fieldPath": field}});
        let items = [
            item("annotations", "metadata.annotations"),
            item("labels", "metadata.labels"),
        ];
        let expected = PodAdditions {
            volumes: vec![
                json!({"name": "wasm-pod-info", "downwardAPI": {"defaultMode": 292, "items": items}}),
            ],
            mounts: strings(&["wasm-pod-info /etc/virt-launcher/pod-info -"]),
            counted: 0,
        };
        assert_eq!(additions(&pod, &stored), expected, "{name}");
    }
}

#[test]
fn the_canary_changes_the_image_of_compute_only() {
    let server = server_with_policies(&["launcher-canary"]);
    for (name, mut pod) in stock_pods() {
        assert_eq!(
            server.admit(Request::create(pod.clone())).unwrap(),
            pod,
            "{name}"
        );
        pod["metadata"]["labels"]["wasm-hooks.example.com/canary"] = "true".into();
        let mut stored = server.admit(Request::create(pod.clone())).unwrap();
        if starts_a_vm(&name) {
            let containers = stored["spec"]["containers"].as_array_mut().unwrap();
            let compute = containers
                .iter_mut()
                .find(|container| container["name"] == "compute")
                .unwrap();
            assert_ne!(
                compute["image"],
                crate::pod_corpus::compute(&pod)["image"],
                "{name}"
            );
            compute["image"] = crate::pod_corpus::compute(&pod)["image"].clone();
        }
        assert_eq!(stored, pod, "{name}");
    }
}
