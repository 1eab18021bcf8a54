//! The pods of the corpora `rendered-pods*`, their annotations, and the parts of a pod that policies change.

use std::fs;
use std::sync::LazyLock;

use serde_json::{Value as Json, json};
use tests::binaries::workspace;

/// The corpora: the directory, the prefix of the pods' names here, the least number of pods, and of those that start a VM.
const CORPORA: [(&str, &str, usize, usize); 4] = [
    ("rendered-pods", "", 31, 26),
    ("rendered-pods-v1.9.0", "v1.9.0/", 5, 5),
    ("rendered-pods-main", "main/", 27, 23),
    ("rendered-pods-v1.8.4", "v1.8.4/", 29, 24),
];

static STOCK_PODS: LazyLock<Vec<(String, Json)>> =
    LazyLock::new(|| CORPORA.into_iter().flat_map(corpus).collect());

fn corpus(
    (directory, prefix, pods, starting_a_vm): (&str, &str, usize, usize),
) -> Vec<(String, Json)> {
    let entries = fs::read_dir(workspace().join("tests/corpus").join(directory)).unwrap();
    let mut found: Vec<(String, Json)> = entries
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name()?.to_str()?.strip_suffix(".pod.json")?;
            let pod = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            Some((format!("{prefix}{name}"), pod))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let starting = found.iter().filter(|(name, _)| starts_a_vm(name)).count();
    assert!(
        found.len() >= pods && starting >= starting_a_vm,
        "{directory}: {} pods, {starting} of which start a VM",
        found.len()
    );
    found
}

/// The same pods with this project's launcher as image.
static PODS: LazyLock<Vec<(String, Json)>> = LazyLock::new(|| {
    let pods = STOCK_PODS.iter();
    pods.map(|(name, pod)| (name.clone(), with_our_launcher(pod)))
        .collect()
});

/// Every pod of the corpora with its name, and with this project's launcher as image. Pods of v1.9.0 without further
/// feature gates have their plain names, others a prefix: `main/plain`.
pub(crate) fn pods() -> Vec<(String, Json)> {
    PODS.clone()
}

/// The pods of v1.9.0, on which a real API server's verdicts were recorded.
pub(crate) fn recorded_pods() -> Vec<(String, Json)> {
    let mut pods = pods();
    pods.retain(|(name, _)| !name.contains('/'));
    pods
}

/// Every pod of the corpora with its name, and with KubeVirt's own launcher as image.
pub(crate) fn stock_pods() -> Vec<(String, Json)> {
    STOCK_PODS.clone()
}

fn with_our_launcher(pod: &Json) -> Json {
    let mut text = pod.to_string();
    for version in ["v1.9.0", "v1.8.4", "main"] {
        let stock = format!("registry.example/kubevirt/virt-launcher:{version}\"");
        text = text.replace(&stock, "registry.example/virt-launcher:v1.9.0-wasm\"");
    }
    text.parse().unwrap()
}

/// A pod of the corpora, with this project's launcher as image.
pub(crate) fn pod(name: &str) -> Json {
    named(&PODS, name)
}

/// A pod of the corpora, with KubeVirt's own launcher as image.
pub(crate) fn stock_pod(name: &str) -> Json {
    named(&STOCK_PODS, name)
}

fn named(pods: &[(String, Json)], name: &str) -> Json {
    let pod = pods.iter().find(|(pod_name, _)| pod_name == name);
    pod.unwrap_or_else(|| panic!("no pod {name}")).1.clone()
}

/// Whether the pod of the corpus starts a VM. Other pods bind claims or attach volumes.
pub(crate) fn starts_a_vm(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap();
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

/// The words of a container's command line: `command`, and after it `args`.
pub(crate) fn words(container: &Json) -> Vec<String> {
    let lists = ["command", "args"].map(|list| container[list].as_array());
    let words = lists.into_iter().flatten().flatten();
    words
        .map(|word| word.as_str().unwrap().to_owned())
        .collect()
}

/// The value of `--hook-sidecars` of the launcher.
pub(crate) fn hook_sidecar_count(pod: &Json) -> u64 {
    let words = words(compute(pod));
    let mut flags = (0..words.len()).filter(|at| words[*at] == "--hook-sidecars");
    let flag = flags.next().unwrap();
    assert_eq!(flags.next(), None, "{words:?}");
    words[flag + 1].parse().unwrap()
}

/// Sets the value of `--hook-sidecars`, in the list that has it.
pub(crate) fn set_hook_sidecar_count(container: &mut Json, count: u64) {
    let flag = words(container)
        .iter()
        .position(|word| word == "--hook-sidecars");
    let value = flag.unwrap() + 1;
    let in_command = container["command"].as_array().map_or(0, Vec::len);
    let value = match value.checked_sub(in_command) {
        None => &mut container["command"][value],
        Some(value) => &mut container["args"][value],
    };
    *value = count.to_string().into();
}

pub(crate) fn compute(pod: &Json) -> &Json {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    containers
        .iter()
        .find(|container| container["name"] == "compute")
        .unwrap()
}
