//! The emulated API server gives the verdicts on launcher pods that were recorded with a real one
//! (tests/corpus/api-server-verdicts/README.md).

use crate::admission_request::Request;
use crate::emulated_api_server::ApiServer;
use crate::pod_additions::additions;
use crate::pod_corpus::{
    Annotations, annotated, hook_sidecar_count, pod, recorded_pods, starts_a_vm,
};
use crate::policy_files::policies;

/// An emulated API server with these policies of the recording.
pub(crate) fn recorded_server(names: &[&str]) -> ApiServer {
    let paths: Vec<_> = names
        .iter()
        .map(|name| format!("tests/corpus/api-server-verdicts/{name}.yaml"))
        .collect();
    ApiServer::new(policies(
        "v1",
        &paths.iter().map(String::as_str).collect::<Vec<_>>(),
    ))
}

/// The annotation of the recorded policies that adds one module.
const ONE_MODULE: &str = "wasm-hook.example.com/image";

#[test]
fn a_policy_that_reads_args_refuses_every_annotated_launcher_pod() {
    let server = recorded_server(&["reads-args"]);
    let mut refused = 0;
    for (name, mut pod) in recorded_pods() {
        server.admit(Request::create(pod.clone())).unwrap();
        pod["metadata"]["annotations"][ONE_MODULE] = "registry.example/hooks:1".into();
        if let Err(error) = server.admit(Request::create(pod)) {
            assert!(
                error.to_lowercase().starts_with(
                    "composited variable \"count\" fails to evaluate: no such key: args"
                ),
                "{name}: {error}"
            );
            refused += 1;
        }
    }
    assert_eq!(refused, 29);
}

#[test]
fn a_policy_without_starts_a_vm_refuses_temporary_pods() {
    let server = recorded_server(&["takes-temporary-pods"]);
    for (name, mut pod) in recorded_pods() {
        pod["metadata"]["annotations"][ONE_MODULE] = "registry.example/hooks:1".into();
        let answer = server.admit(Request::create(pod.clone()));
        if name.starts_with("novm") {
            // The recorded message: `type conversion error from 'string' to 'int'`.
            let error = answer.unwrap_err();
            assert!(error.contains("int"), "{name}: {error}");
        } else if starts_a_vm(&name) {
            assert_eq!(
                hook_sidecar_count(&answer.unwrap()),
                hook_sidecar_count(&pod) + 1,
                "{name}"
            );
        }
    }
}

#[test]
fn policies_change_launcher_pods_as_recorded() {
    const HOOKS: Annotations = &[
        ("image", "registry.example/hooks:1"),
        ("hooks", "banner,serial"),
    ];
    const STANDING: Annotations = &[
        ("image", "registry.example/hooks:1"),
        ("standing", "banner,serial"),
    ];
    const CONFIG_MAPS: Annotations = &[("config-maps", "banner,serial")];
    // The policy, its annotations, and the numbers of new volumes, new mounts and counted hooks.
    let cases = [
        ("hooks-image", HOOKS, 1, 2, 2),
        ("standing-hooks", STANDING, 1, 2, 0),
        ("hooks-configmap", CONFIG_MAPS, 2, 2, 2),
    ];
    for (policy, annotations, volumes, mounts, counted) in cases {
        let server = recorded_server(&[policy]);
        for (name, pod) in recorded_pods() {
            let plain = server.admit(Request::create(pod.clone())).unwrap();
            assert_eq!(plain, pod, "{policy}: {name}");
            let pod = annotated(pod, annotations);
            let stored = server.admit(Request::create(pod.clone())).unwrap();
            if !starts_a_vm(&name) {
                assert_eq!(stored, pod, "{policy}: {name}");
                continue;
            }
            let additions = additions(&pod, &stored);
            let found = (
                additions.volumes.len(),
                additions.mounts.len(),
                additions.counted,
            );
            assert_eq!(found, (volumes, mounts, counted), "{policy}: {name}");
        }
    }
}

#[test]
fn namespace_annotations_add_hooks_as_recorded() {
    let server = recorded_server(&["hooks-by-namespace"]);
    let annotations = [("image", "registry.example/hooks:1"), ("hooks", "audit")];
    for (name, pod) in recorded_pods() {
        let mut request = Request::create(pod.clone());
        assert_eq!(server.admit(request.clone()).unwrap(), pod, "{name}");
        request.namespace = annotated(request.namespace, &annotations);
        let stored = server.admit(request).unwrap();
        if starts_a_vm(&name) {
            assert_eq!(additions(&pod, &stored).counted, 1, "{name}");
        } else {
            assert_eq!(stored, pod, "{name}");
        }
    }
}

/// One pod has counted, standing and ConfigMap hooks and another launcher.
#[test]
fn counts_of_several_policies_add_up() {
    let server = recorded_server(&[
        "hooks-image",
        "hooks-configmap",
        "standing-hooks",
        "launcher-image",
    ]);
    let annotations = [
        ("image", "registry.example/hooks:1"),
        ("hooks", "a,b"),
        ("standing", "c"),
        ("config-maps", "d"),
    ];
    let mut pod = annotated(pod("sidecar-two-configmap"), &annotations);
    pod["metadata"]["labels"]["wasm-hooks.example.com/canary"] = "true".into();
    // The policies must find the container `compute` by its name, not by its index.
    pod["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .rotate_left(1);
    let mut stored = server.admit(Request::create(pod.clone())).unwrap();
    let containers = stored["spec"]["containers"].as_array_mut().unwrap();
    let compute = containers
        .iter_mut()
        .find(|container| container["name"] == "compute")
        .unwrap();
    assert_eq!(
        compute["image"],
        "registry.example/virt-launcher:v1.9.0-wasm"
    );
    compute["image"] = crate::pod_corpus::compute(&pod)["image"].clone();
    let additions = additions(&pod, &stored);
    assert_eq!(
        (
            additions.volumes.len(),
            additions.mounts.len(),
            additions.counted
        ),
        (3, 4, 3)
    );
}
