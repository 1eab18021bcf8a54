//! `deploy`: the manifests for kubectl.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{smbios, text, virt_hook, write};

/// A VirtualMachine with annotations of other hooks.
pub(super) const VM: &str = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata:\n  name: web\n  namespace: shop\n\
    spec:\n  runStrategy: Always\n  template:\n    metadata:\n      labels: {app: web}\n      annotations:\n        \
    wasm-hooks.example.com/image: registry.example/hooks:1\n        \
    wasm-hooks.example.com/standing: banner, serial\n        \
    hooks.kubevirt.io/hookSidecars: '[{\"image\": \"other\"}]'\n    spec: {domain: {devices: {}}}\n";

/// The module of the smbios example in a directory of this name.
pub(super) fn hook(temp_dir: &Path, name: &str) -> PathBuf {
    let directory = temp_dir.join(name);
    fs::create_dir(&directory).unwrap();
    fs::copy(smbios(), directory.join("hook.wasm")).unwrap();
    directory
}

#[test]
fn annotations_are_merged_with_those_of_the_vm() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (hook, vm) = (
        hook(temp_dir.path(), "smbios"),
        write(temp_dir.path(), "vm.yaml", VM),
    );
    let annotations = |arguments: &[&str]| {
        let common = [
            "deploy",
            text(&hook),
            "--vm",
            text(&vm),
            "--namespace",
            "shop",
            "--json",
        ];
        let report = virt_hook(&[&common, arguments].concat()).json();
        let manifests = report["result"]["manifests"].as_array().unwrap().clone();
        let vm = manifests.last().unwrap();
        assert_eq!(vm["spec"]["template"]["metadata"]["labels"]["app"], "web");
        vm["spec"]["template"]["metadata"]["annotations"].clone()
    };
    let image = ["--as", "image", "--image", "registry.example/hooks:1"];
    assert_eq!(
        annotations(&image)["wasm-hooks.example.com/standing"],
        "banner, serial,smbios"
    );
    let sidecar = ["--as", "sidecar", "--image", "registry.example/virt-hook:1"];
    let sidecars = annotations(&sidecar)["hooks.kubevirt.io/hookSidecars"].clone();
    let sidecars: Vec<Value> = serde_json::from_str(sidecars.as_str().unwrap()).unwrap();
    assert_eq!(sidecars[0], json!({"image": "other"}));
    assert_eq!(sidecars[1]["configMap"]["name"], "smbios");
    assert_eq!(sidecars.len(), 2);
}

/// Cargo writes `_` in the name of a module for each `-` of its package's.
#[test]
fn hook_of_a_package_with_dashes_has_them_in_the_cluster() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = temp_dir.path().join("smbios_hook.wasm");
    fs::copy(smbios(), &module).unwrap();
    let deployed = virt_hook(&["deploy", text(&module), "--as", "configmap", "--json"]).json();
    assert_eq!(deployed["result"]["name"], "smbios-hook");
    let layout = temp_dir.path().join("layout");
    let packed = virt_hook(&["image", text(&module), "--out", text(&layout), "--json"]).json();
    assert_eq!(packed["result"]["hooks"][0]["name"], "smbios-hook");
}

/// With these fields, which `kubectl get vm web -o yaml` prints, `kubectl apply` is refused after a change of the VM's
/// status.
#[test]
fn fields_of_the_api_server_are_removed_from_the_vm() {
    let temp_dir = tempfile::tempdir().unwrap();
    let hook = hook(temp_dir.path(), "smbios");
    let vm = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata:\n  annotations:\n    \
        kubectl.kubernetes.io/last-applied-configuration: '{}'\n    team: shop\n  \
        creationTimestamp: \"2026-11-23T12:00:00Z\"\n  generation: 2\n  labels: {app: web}\n  name: web\n  \
        namespace: default\n  resourceVersion: \"275\"\n  uid: 38c79648-7260-453a-a312-ba9c8eef7fbc\nspec:\n  \
        template:\n    metadata: {creationTimestamp: null}\n    spec: {domain: {devices: {}}}\n\
        status: {printableStatus: Running}\n";
    let vm = write(temp_dir.path(), "vm.yaml", vm);
    let arguments = ["--as", "configmap", "--vm", text(&vm), "--json"];
    let report = virt_hook(&[&["deploy", text(&hook)], &arguments[..]].concat()).json();
    let vm = &report["result"]["manifests"][1];
    let metadata = json!({"annotations": {"team": "shop"}, "labels": {"app": "web"}, "name": "web", "namespace": "default"});
    assert_eq!(vm["metadata"], metadata);
    assert_eq!(vm.get("status"), None);
}

#[test]
fn a_misspelt_field_of_the_vm_is_warned_about() {
    let temp_dir = tempfile::tempdir().unwrap();
    let hook = hook(temp_dir.path(), "smbios");
    let vm = write(
        temp_dir.path(),
        "vm.yaml",
        &VM.replace("runStrategy", "runStrtegy"),
    );
    let arguments = [
        "--as",
        "configmap",
        "--namespace",
        "shop",
        "--vm",
        text(&vm),
    ];
    let deployed = virt_hook(&[&["deploy", text(&hook)], &arguments[..]].concat());
    let warning = "the field spec.runStrtegy is unknown to KubeVirt 1.9: is it runStrategy?";
    assert!(deployed.err.contains(warning), "{}", deployed.err);
    deployed.success_stdout();
}

#[test]
fn annotations_of_the_vm_that_its_template_lacks_are_warned_about() {
    let temp_dir = tempfile::tempdir().unwrap();
    let hook = hook(temp_dir.path(), "smbios");
    let annotated = "metadata:\n  annotations:\n    smbios.vm.kubevirt.io/baseBoardManufacturer: ACME\n    \
        kubectl.kubernetes.io/last-applied-configuration: '{}'\n  name: web";
    let vm = write(
        temp_dir.path(),
        "vm.yaml",
        &VM.replace("metadata:\n  name: web", annotated),
    );
    let arguments = ["--as", "configmap", "--namespace", "shop"];
    let deploy = |vm: &Path| {
        let deployed =
            virt_hook(&[&["deploy", text(&hook), "--vm", text(vm)], &arguments[..]].concat());
        let warnings = deployed.err.clone();
        deployed.success_stdout();
        warnings
    };
    let warnings = deploy(&vm);
    let warning = "metadata.annotations of the VirtualMachine are not those of its VMI, and hooks do not see them: \
        smbios.vm.kubevirt.io/baseBoardManufacturer;";
    assert!(warnings.contains(warning), "{warnings}");
    let in_template = write(temp_dir.path(), "template.yaml", VM);
    assert_eq!(deploy(&in_template), "");
}

#[test]
fn a_config_map_has_hook_yaml_and_signature() {
    let temp_dir = tempfile::tempdir().unwrap();
    let hook = hook(temp_dir.path(), "smbios");
    write(&hook, "hook.yaml", "# mine\npriority: 3\n");
    let key = super::signing_key::signing_key(temp_dir.path(), "key");
    let module = hook.join("hook.wasm");
    virt_hook(&["sign", text(&module), "--key", text(&key)]).success_stdout();
    let arguments = ["deploy", text(&hook), "--as", "configmap", "--json"];
    let result = virt_hook(&arguments).json()["result"].clone();
    let config_map = &result["manifests"][0];
    assert_eq!(config_map["data"]["hook.yaml"], "# mine\npriority: 3\n");
    assert!(config_map["data"]["hook.wasm.sigstore.json"].is_string());
    assert_eq!(
        result["annotations"],
        json!({"wasm-hooks.example.com/config-maps": "smbios"})
    );
    let printed = virt_hook(&arguments[..4]).success_stdout();
    assert!(
        printed.contains("# wasm-hooks.example.com/config-maps: smbios\n"),
        "{printed}"
    );
    assert!(
        printed.contains("#     - /domain/sysinfo/baseBoard/**\n"),
        "{printed}"
    );
}

#[test]
fn no_text_of_hook_yaml_ends_a_line_of_the_manifests() {
    let temp_dir = tempfile::tempdir().unwrap();
    let hook = hook(temp_dir.path(), "smbios");
    let kind = "kind: Pod\u{2028}apiVersion: v1\u{2028}metadata: {name: owned}";
    let yaml = format!("# a\u{2028}{kind}\u{2028}# \u{85}\u{202e}\npriority: 3\n");
    write(&hook, "hook.yaml", &yaml);
    let arguments = ["deploy", text(&hook), "--as", "configmap", "--json"];
    let json = virt_hook(&arguments).success_stdout();
    let printed = virt_hook(&arguments[..4]).success_stdout();
    for output in [&json, &printed] {
        let is_plain = |c: char| c == '\n' || hook_host::is_printable(c);
        assert!(output.chars().all(is_plain), "{output}");
    }
    let json: Value = serde_json::from_str(&json).unwrap();
    let manifests: Vec<Value> = serde_saphyr::from_multiple(&printed).unwrap();
    assert_eq!(manifests, *json["result"]["manifests"].as_array().unwrap());
    assert_eq!(manifests[0]["data"]["hook.yaml"], yaml.as_str());
}

#[test]
fn hook_points_that_are_not_called_are_reported() {
    let temp_dir = tempfile::tempdir().unwrap();
    let hook = temp_dir.path().join("disks");
    fs::create_dir(&hook).unwrap();
    let module = super::example_modules::example("disk-tuning-hook");
    fs::copy(module, hook.join("hook.wasm")).unwrap();
    let deploy = |route: &str, more: &[&str]| {
        let image = ["--image", "registry.example/hooks:1"];
        virt_hook(&[&["deploy", text(&hook), "--as", route], &image[..], more].concat())
    };
    for route in ["plugin", "sidecar"] {
        let printed = deploy(route, &[]).success_stdout();
        assert!(
            printed.contains(" never calls OnAttachDevice; "),
            "{printed}"
        );
        let result = deploy(route, &["--json"]).json()["result"].clone();
        assert_eq!(result["uncalledHookPoints"], json!(["OnAttachDevice"]));
    }
    // On the route `image`, this project's launcher runs the module, and calls it at every hook point.
    let image_route = deploy("image", &["--json"]).json()["result"].clone();
    assert_eq!(image_route["uncalledHookPoints"], json!([]));
    // hook.yaml decides about a module's hook points.
    write(&hook, "hook.yaml", "hookPoints: [{name: OnAttachDevice}]\n");
    assert_eq!(deploy("plugin", &[]).code, 1);
    write(&hook, "hook.yaml", "hookPoints: [{name: OnDefineDomain}]\n");
    let narrowed = deploy("plugin", &["--json"]).json()["result"].clone();
    assert_eq!(narrowed["uncalledHookPoints"], json!([]));
}

/// KubeVirt's launcher calls only the first sidecar with PreCloudInitIso.
#[test]
fn a_second_sidecar_with_cloud_init_is_warned_about() {
    let temp_dir = tempfile::tempdir().unwrap();
    let vm = write(temp_dir.path(), "vm.yaml", VM);
    let alone = VM.replace("[{\"image\": \"other\"}]", "[]");
    let alone = write(temp_dir.path(), "alone.yaml", &alone);
    let warning =
        "the VM has 2 hook sidecars, and KubeVirt's own launcher calls PreCloudInitIso of one only";
    let deploy = |example: &str, vm: &Path| {
        let module = super::example_modules::example(example);
        let module = ["deploy", text(&module), "--as", "sidecar", "--name", "hook"];
        let image = ["--image", "registry.example/virt-hook:1"];
        let vm = ["--namespace", "shop", "--vm", text(vm)];
        let deployed = virt_hook(&[&module[..], &image, &vm].concat());
        (deployed.err.contains(warning), deployed.success_stdout())
    };
    let (is_warned, printed) = deploy("cloud-init-hook", &vm);
    assert!(is_warned, "{printed}");
    assert!(
        printed.contains("# KubeVirt's own launcher calls PreCloudInitIso of one sidecar only")
    );
    assert!(!deploy("cloud-init-hook", &alone).0);
    assert!(!deploy("smbios-hook", &vm).0);
}
