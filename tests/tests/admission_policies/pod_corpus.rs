//! The pods of the corpus `rendered-pods`, their annotations, and the parts of a pod that policies change.

use std::fs;

use serde_json::{Value as Json, json};
use tests::binaries::workspace;

/// The launcher's image in the corpus, and this project's image.
const LAUNCHER_IMAGES: [&str; 2] = [
    "registry.example/kubevirt/virt-launcher:v1.9.0",
    "registry.example/virt-launcher:v1.9.0-wasm",
];

/// Every pod of the corpus with its name, and with this project's launcher as image.
pub(crate) fn pods() -> Vec<(String, Json)> {
    let [stock, ours] = LAUNCHER_IMAGES;
    let pods = stock_pods().into_iter().map(|(name, pod)| {
        let text = pod.to_string();
        (name, text.replace(stock, ours).parse().unwrap())
    });
    pods.collect()
}

/// Every pod of the corpus with its name, and with KubeVirt's own launcher as image.
pub(crate) fn stock_pods() -> Vec<(String, Json)> {
    let mut pods: Vec<(String, Json)> =
        fs::read_dir(workspace().join("tests/corpus/rendered-pods"))
            .unwrap()
            .filter_map(|entry| {
                let path = entry.unwrap().path();
                let name = path
                    .file_name()?
                    .to_str()?
                    .strip_suffix(".pod.json")?
                    .to_owned();
                Some((
                    name,
                    serde_json::from_slice(&fs::read(path).unwrap()).unwrap(),
                ))
            })
            .collect();
    pods.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(pods.len(), 31);
    assert_eq!(
        pods.iter().filter(|(name, _)| starts_a_vm(name)).count(),
        26
    );
    pods
}

/// A pod of the corpus, with this project's launcher as image.
pub(crate) fn pod(name: &str) -> Json {
    let pods = pods();
    pods.into_iter()
        .find(|(pod_name, _)| pod_name == name)
        .unwrap()
        .1
}

/// A pod of the corpus, with KubeVirt's own launcher as image.
pub(crate) fn stock_pod(name: &str) -> Json {
    let pods = stock_pods();
    pods.into_iter()
        .find(|(pod_name, _)| pod_name == name)
        .unwrap()
        .1
}

/// Whether the pod of the corpus starts a VM. Other pods bind claims or attach volumes.
pub(crate) fn starts_a_vm(name: &str) -> bool {
    !name.starts_with("novm") && !name.starts_with("hotplug-")
}

/// Annotations: the part of the key after `wasm-hooks.example.com/`, and the value.
pub(crate) type Annotations = &'static [(&'static str, &'static str)];

/// The object with these annotations in its metadata.
pub(crate) fn annotated(mut object: Json, annotations: &[(&str, &str)]) -> Json {
    for (key, value) in annotations {
        object["metadata"]["annotations"][format!("wasm-hooks.example.com/{key}")] =
            (*value).into();
    }
    object
}

/// A VirtualMachine whose template has these annotations.
pub(crate) fn virtual_machine(annotations: &[(&str, &str)]) -> Json {
    let template = annotated(json!({"metadata": {"labels": {"app": "web"}}}), annotations);
    json!({"kind": "VirtualMachine", "metadata": {"name": "web"}, "spec": {"template": template}})
}

/// The value of `--hook-sidecars` of the launcher.
pub(crate) fn hook_sidecar_count(pod: &Json) -> u64 {
    let command = compute(pod)["command"].as_array().unwrap();
    let flag = command
        .iter()
        .position(|word| word == "--hook-sidecars")
        .unwrap();
    command[flag + 1].as_str().unwrap().parse().unwrap()
}

pub(crate) fn compute(pod: &Json) -> &Json {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    containers
        .iter()
        .find(|container| container["name"] == "compute")
        .unwrap()
}
