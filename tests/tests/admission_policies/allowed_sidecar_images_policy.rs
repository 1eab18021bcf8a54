//! Tests `deploy/admission/sidecars/allowed-sidecar-images.yaml`, which limits the hook sidecars of launcher pods to
//! images of the operator's registry.

use serde_json::{Value as Json, json};

use crate::admission_request::Request;
use crate::emulated_api_server::ApiServer;
use crate::pod_corpus::pods;
use crate::policy_files::policies;

/// The position of the first hook sidecar among the containers.
fn first_sidecar(pod: &Json) -> Option<usize> {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let names = containers
        .iter()
        .map(|container| container["name"].as_str().unwrap());
    names
        .into_iter()
        .position(|name| name.starts_with("hook-sidecar-"))
}

#[test]
fn launcher_pods_with_a_sidecar_of_another_registry_are_refused() {
    let file = "deploy/admission/sidecars/allowed-sidecar-images.yaml";
    let server = ApiServer::new(policies("v1", &[file]));
    let mut refused = 0;
    for (name, mut pod) in pods() {
        // The images in the corpus are of registry.example, which the policy allows.
        let stored = server.admit(Request::create(pod.clone())).unwrap();
        assert_eq!(stored, pod, "{name}");
        let Some(position) = first_sidecar(&pod) else {
            continue;
        };
        // A registry whose name begins with the allowed one.
        pod["spec"]["containers"][position]["image"] = "registry.example.org/miner:1".into();
        let mut as_init_container = pod.clone();
        let spec = &mut as_init_container["spec"];
        let sidecar = spec["containers"].as_array_mut().unwrap().remove(position);
        match spec["initContainers"].as_array_mut() {
            Some(containers) => containers.push(sidecar),
            None => spec["initContainers"] = json!([sidecar]),
        }
        for pod in [pod, as_init_container] {
            let error = server.admit(Request::create(pod)).unwrap_err();
            assert!(
                error.contains("registry.example.org/miner:1 is not from registry.example/"),
                "{name}: {error}"
            );
        }
        refused += 1;
    }
    let with_sidecar = pods()
        .into_iter()
        .filter(|(_, pod)| first_sidecar(pod).is_some());
    assert_eq!(refused, with_sidecar.count());
    assert!(refused >= 8, "{refused}");
}
