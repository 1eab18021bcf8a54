//! `deploy/overlays/serve` limits the images of hook sidecars to the operator's.

use serde_json::Value as Json;

use crate::emulated_api_server::{ApiServer, Request};
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
fn launcher_pods_with_another_image_beside_them_are_refused() {
    let file = "deploy/admission/sidecars/allowed-sidecar-images.yaml";
    let server = ApiServer::new(policies("v1", &[file]));
    let mut refused = 0;
    for (name, mut pod) in pods() {
        // The corpus has images of registry.example.
        let stored = server.admit(Request::create(pod.clone())).unwrap();
        assert_eq!(stored, pod, "{name}");
        let Some(last) = sidecars(&mut pod).last() else {
            continue;
        };
        last["image"] = "registry.example.org/miner:1".into();
        let error = server.admit(Request::create(pod)).unwrap_err();
        assert!(
            error.contains("registry.example.org/miner:1 is not from registry.example/"),
            "{name}: {error}"
        );
        refused += 1;
    }
    assert_eq!(refused, 8);
}
