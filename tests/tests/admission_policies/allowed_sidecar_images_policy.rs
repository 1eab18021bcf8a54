//! Tests `deploy/admission/sidecars/allowed-sidecar-images.yaml`, which limits the hook sidecars of launcher pods to
//! images of the operator's registry.

use serde_json::Value as Json;

use crate::admission_request::Request;
use crate::emulated_api_server::ApiServer;
use crate::pod_corpus::pods;
use crate::policy_files::policies;

fn sidecars(pod: &mut Json) -> impl Iterator<Item = &mut Json> {
    let containers = pod["spec"]["containers"].as_array_mut().unwrap().iter_mut();
    containers.filter(|container| {
        let name = container["name"].as_str().unwrap();
        name.starts_with("hook-sidecar-")
    })
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
        let Some(sidecar) = sidecars(&mut pod).next() else {
            continue;
        };
        // A registry whose name begins with the allowed one.
        sidecar["image"] = "registry.example.org/miner:1".into();
        let error = server.admit(Request::create(pod)).unwrap_err();
        assert!(
            error.contains("registry.example.org/miner:1 is not from registry.example/"),
            "{name}: {error}"
        );
        refused += 1;
    }
    assert!(refused >= 25, "{refused}");
}
