//! The VMIs, domains, cloud-init documents and facts about the pod with which the recipes are run.

use std::fs;

use hooks_sdk::Vmi;
use hooks_sdk::host::native;
use serde_json::{Value, json};
use tests::binaries::workspace;
use tests::sample_pod_facts::NETWORK_STATUS;

/// The annotation of the pod that a recipe reads, and its value.
pub(crate) const DISK_LIMIT: (&str, &str) = ("example.com/disk-iops", "500");

/// Sets the facts about the pod that a recipe wishes for, and no others, for native calls.
pub(crate) fn set_pod(wishes: &[&str]) {
    native::reset();
    let (key, value) = DISK_LIMIT;
    if wishes.contains(&format!("annotations/{key}").as_str()) {
        native::set_pod_annotation(key, value);
    }
    if wishes.contains(&"network-status/infra/lab") {
        native::set_network_status(NETWORK_STATUS);
    }
}

/// A VMI with all annotations and fields that the recipes read.
pub(crate) fn vmi() -> Vmi {
    Vmi::new(vmi_json("").to_string())
}

/// The JSON of the VMI with the name of the recipe that a module with all recipes runs.
pub(crate) fn vmi_json(recipe: &str) -> Value {
    vmi_with(recipe, "recipe", recipe)
}

/// The JSON of the VMI with the name of the recipe and another value of an annotation.
pub(crate) fn vmi_with(recipe: &str, annotation: &str, value: &str) -> Value {
    let mut annotations = json!({
        "example.com/usb": "046d:0825",
        "example.com/pci": "0000:3b:00.0",
        "example.com/shared-memory": "between-vms",
        "example.com/pin-to": "4,5",
        "example.com/ops-key": "ssh-ed25519 AAAA ops",
        "recipe": recipe,
    });
    annotations[annotation] = value.into();
    json!({
        "metadata": {"name": "vm", "namespace": "ns", "uid": "6b3e", "annotations": annotations},
        "spec": {"domain": {
            "cpu": {"cores": 2},
            "devices": {
                "gpus": [{"name": "gpu1", "deviceName": "nvidia.com/vgpu"}],
                "interfaces": [{"name": "default", "masquerade": {}}],
                "networkInterfaceMultiqueue": true,
            },
        }},
        "status": {"nodeName": "node01"},
    })
}

/// KubeVirt's domain of a typical VM, with the vGPU of the VMI.
pub(crate) fn domain() -> String {
    let corpus = workspace().join("tests/corpus/vmi-to-domain-xml/typical-fedora.xml");
    let gpu = "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source>\
        <address uuid='c2177883-f1bb-47f0-914d-32a22e3a8804'/></source><alias name='ua-gpu-gpu1'/></hostdev></devices>";
    fs::read_to_string(corpus)
        .unwrap()
        .replace("</devices>", gpu)
}

/// A domain without a display, whose interface has another name than in the VMI, and with a second USB controller that
/// already has the model that a recipe sets.
pub(crate) fn unusual_domain() -> String {
    let domain = domain();
    let (before, video) = domain.split_once("<video>").unwrap();
    let (_, after) = video.split_once("</video>").unwrap();
    let second = "<controller type='usb' index='1' model='qemu-xhci'/></devices>";
    let unusual = format!("{before}{after}")
        .replace("ua-default", "ua-storage")
        .replace("</devices>", second);
    assert!(unusual.contains("ua-storage"), "the interface has no alias");
    unusual
}

/// A VMI without multiqueue: virt-handler creates its tap devices with one queue.
pub(crate) fn single_queue_vmi(recipe: &str) -> Value {
    let mut vmi = vmi_json(recipe);
    vmi["spec"]["domain"]["devices"]["networkInterfaceMultiqueue"] = false.into();
    vmi
}

/// A VMI with one vCPU: virt-handler creates its tap devices with one queue, too.
pub(crate) fn single_cpu_vmi(recipe: &str) -> Value {
    let mut vmi = vmi_json(recipe);
    vmi["spec"]["domain"]["cpu"]["cores"] = 1.into();
    vmi
}

/// Cloud-init documents with comments of the user.
pub(crate) fn documents() -> Vec<(String, String)> {
    let documents = [
        ("user-data", "#cloud-config\n# mine\npackages: [vim]\n"),
        ("network-data", "# ours\nversion: 2\n"),
    ];
    documents
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .to_vec()
}
