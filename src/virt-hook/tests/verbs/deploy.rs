//! `deploy`: objects for kubectl, and what is refused before a cluster refuses it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{smbios, text, virt_hook, write};

const VM: &str = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata:\n  name: web\n  namespace: shop\n\
    spec:\n  runStrategy: Always\n  template:\n    metadata:\n      labels: {app: web}\n      annotations:\n        \
    wasm-hooks.example.com/image: registry.example/hooks:1\n        \
    wasm-hooks.example.com/standing: banner, serial\n        \
    hooks.kubevirt.io/hookSidecars: '[{\"image\": \"other\"}]'\n    spec: {domain: {devices: {}}}\n";

/// The example's module in a directory of the name.
fn hook(temp_dir: &Path, name: &str) -> PathBuf {
    let directory = temp_dir.join(name);
    fs::create_dir(&directory).unwrap();
    fs::copy(smbios(), directory.join("hook.wasm")).unwrap();
    directory
}

/// The module with a custom section, so that it has more bytes and does the same.
fn padded(temp_dir: &Path, bytes: usize) -> PathBuf {
    let mut module = fs::read(smbios()).unwrap();
    let name = b"padding";
    let mut size = name.len() + 1 + bytes;
    module.push(0);
    while size >= 0x80 {
        module.push((size & 0x7f) as u8 | 0x80);
        size >>= 7;
    }
    module.push(size as u8);
    module.push(name.len() as u8);
    module.extend(name);
    module.resize(module.len() + bytes, 0);
    let path = temp_dir.join("padded.wasm");
    fs::write(&path, module).unwrap();
    path
}

#[test]
fn annotations_join_those_of_the_vm() {
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

/// `kubectl get vm web -o yaml`: with the server's fields `kubectl apply` is refused when the VM's status has changed since.
#[test]
fn a_vm_that_the_api_server_printed_becomes_a_manifest() {
    let place = tempfile::tempdir().unwrap();
    let hook = hook(place.path(), "smbios");
    let vm = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata:\n  annotations:\n    \
        kubectl.kubernetes.io/last-applied-configuration: '{}'\n    team: shop\n  \
        creationTimestamp: \"2026-11-23T12:00:00Z\"\n  generation: 2\n  labels: {app: web}\n  name: web\n  \
        namespace: default\n  resourceVersion: \"275\"\n  uid: 38c79648-7260-453a-a312-ba9c8eef7fbc\nspec:\n  \
        template:\n    metadata: {creationTimestamp: null}\n    spec: {domain: {devices: {}}}\n\
        status: {printableStatus: Running}\n";
    let vm = write(place.path(), "vm.yaml", vm);
    let arguments = ["--as", "configmap", "--vm", text(&vm), "--json"];
    let report = virt_hook(&[&["deploy", text(&hook)], &arguments[..]].concat()).json();
    let vm = &report["result"]["manifests"][1];
    let metadata = json!({"annotations": {"team": "shop"}, "labels": {"app": "web"}, "name": "web", "namespace": "default"});
    assert_eq!(vm["metadata"], metadata);
    assert_eq!(vm.get("status"), None);
}

#[test]
fn a_misspelt_field_of_the_vm_is_warned_about() {
    let place = tempfile::tempdir().unwrap();
    let hook = hook(place.path(), "smbios");
    let vm = write(
        place.path(),
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
    deployed.ok();
}

#[test]
fn annotations_of_the_vm_that_its_template_lacks_are_warned_about() {
    let place = tempfile::tempdir().unwrap();
    let hook = hook(place.path(), "smbios");
    let annotated = "metadata:\n  annotations:\n    smbios.vm.kubevirt.io/baseBoardManufacturer: ACME\n    \
        kubectl.kubernetes.io/last-applied-configuration: '{}'\n  name: web";
    let vm = write(
        place.path(),
        "vm.yaml",
        &VM.replace("metadata:\n  name: web", annotated),
    );
    let arguments = ["--as", "configmap", "--namespace", "shop"];
    let deploy = |vm: &Path| {
        let deployed =
            virt_hook(&[&["deploy", text(&hook), "--vm", text(vm)], &arguments[..]].concat());
        let warnings = deployed.err.clone();
        deployed.ok();
        warnings
    };
    let warnings = deploy(&vm);
    let warning = "metadata.annotations of the VirtualMachine are not those of its VMI, and hooks do not see them: \
        smbios.vm.kubevirt.io/baseBoardManufacturer;";
    assert!(warnings.contains(warning), "{warnings}");
    let in_template = write(place.path(), "template.yaml", VM);
    assert_eq!(deploy(&in_template), "");
}

#[test]
fn a_config_map_has_hook_yaml_and_signature() {
    let temp_dir = tempfile::tempdir().unwrap();
    let hook = hook(temp_dir.path(), "smbios");
    write(&hook, "hook.yaml", "# mine\npriority: 3\n");
    let key = super::virt_hook_program::signing_key(temp_dir.path(), "key");
    let module = hook.join("hook.wasm");
    virt_hook(&["sign", text(&module), "--key", text(&key)]).ok();
    let arguments = ["deploy", text(&hook), "--as", "configmap", "--json"];
    let result = virt_hook(&arguments).json()["result"].clone();
    let config_map = &result["manifests"][0];
    assert_eq!(config_map["data"]["hook.yaml"], "# mine\npriority: 3\n");
    assert!(config_map["data"]["hook.wasm.sigstore.json"].is_string());
    assert_eq!(
        result["annotations"],
        json!({"wasm-hooks.example.com/config-maps": "smbios"})
    );
    let printed = virt_hook(&arguments[..4]).ok();
    assert!(
        printed.contains("# wasm-hooks.example.com/config-maps: smbios\n"),
        "{printed}"
    );
    assert!(
        printed.contains("#     - /domain/sysinfo/**\n"),
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
    let json = virt_hook(&arguments).ok();
    let printed = virt_hook(&arguments[..4]).ok();
    for output in [&json, &printed] {
        let is_plain = |c: char| c == '\n' || hook_host::is_printable(c);
        assert!(output.chars().all(is_plain), "{output}");
    }
    let json: Value = serde_json::from_str(&json).unwrap();
    let manifests: Vec<Value> = serde_saphyr::from_multiple(&printed).unwrap();
    assert_eq!(manifests, *json["result"]["manifests"].as_array().unwrap());
    assert_eq!(manifests[0]["data"]["hook.yaml"], yaml.as_str());
}

/// The policy of a sidecar is whose that writes the annotation: a module does not grant itself the dangerous set.
#[test]
fn policy_of_a_sidecar_does_not_grant_the_modules_dangerous_wishes() {
    let temp_dir = tempfile::tempdir().unwrap();
    let hook = temp_dir.path().join("args");
    fs::create_dir(&hook).unwrap();
    fs::copy(
        super::served_sidecar::example("qemu-args-hook"),
        hook.join("hook.wasm"),
    )
    .unwrap();
    let image = ["--image", "registry.example/virt-hook:1", "--json"];
    let deploy =
        |arguments: &[&str]| virt_hook(&[&["deploy", text(&hook)], arguments, &image].concat());
    let refused = deploy(&["--as", "sidecar"]);
    assert_eq!(refused.code, 1, "{}{}", refused.out, refused.err);
    for part in ["/domain/qemu:commandline/**", "--allow-dangerous"] {
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
    let json = deploy(&["--as", "sidecar", "--allow-dangerous"]).json();
    let sidecars = &json["result"]["annotations"]["hooks.kubevirt.io/hookSidecars"];
    let granted = sidecars.to_string();
    assert!(granted.contains("/domain/qemu:commandline/**"), "{granted}");
    let other_route = deploy(&["--as", "image", "--allow-dangerous"]);
    assert_eq!(other_route.code, 2, "{}", other_route.out);
    let words = "--allow-dangerous is for --as sidecar";
    assert!(other_route.err.contains(words), "{}", other_route.err);
}

/// KubeVirt calls nothing else, and fails the start of every VM for a Plugin whose module cannot be one.
#[test]
fn a_module_is_refused_where_nothing_would_call_it() {
    let image = ["--image", "registry.example/hooks:1"];
    let cases = [
        ("cloud-init-hook", "plugin", "PreCloudInitIso"),
        ("shutdown-audit-hook", "plugin", "Shutdown"),
        ("migration-tuning-hook", "sidecar", "PreMigrationSource"),
    ];
    for (example, route, point) in cases {
        let module = super::served_sidecar::example(example);
        let arguments = ["deploy", text(&module), "--as", route, "--name", "hook"];
        let refused = virt_hook(&[&arguments[..], &image].concat());
        assert_eq!(refused.code, 1, "{example}: {}{}", refused.out, refused.err);
        assert_eq!(refused.out, "");
        for part in [&format!("has only {point}"), "--as configmap or image"] {
            assert!(refused.err.contains(part), "{part}: {}", refused.err);
        }
        let standing = ["deploy", text(&module), "--as", "image", "--name", "hook"];
        virt_hook(&[&standing[..], &image].concat()).ok();
    }
    for example in ["cloud-init-hook", "shutdown-audit-hook"] {
        let module = super::served_sidecar::example(example);
        let arguments = ["deploy", text(&module), "--as", "sidecar", "--name", "hook"];
        virt_hook(&[&arguments[..], &image].concat()).ok();
    }
}

#[test]
fn hook_points_that_are_not_called_are_named() {
    let temp_dir = tempfile::tempdir().unwrap();
    let hook = temp_dir.path().join("disks");
    fs::create_dir(&hook).unwrap();
    let module = super::served_sidecar::example("disk-tuning-hook");
    fs::copy(module, hook.join("hook.wasm")).unwrap();
    let deploy = |route: &str, more: &[&str]| {
        let image = ["--image", "registry.example/hooks:1"];
        virt_hook(&[&["deploy", text(&hook), "--as", route], &image[..], more].concat())
    };
    for route in ["plugin", "sidecar"] {
        let printed = deploy(route, &[]).ok();
        assert!(
            printed.contains(" never calls OnAttachDevice; "),
            "{printed}"
        );
        let result = deploy(route, &["--json"]).json()["result"].clone();
        assert_eq!(result["uncalledHookPoints"], json!(["OnAttachDevice"]));
    }
    let standing = deploy("image", &["--json"]).json()["result"].clone();
    assert_eq!(standing["uncalledHookPoints"], json!([]));
    // hook.yaml has the last word about a module's hook points.
    write(&hook, "hook.yaml", "hookPoints: [{name: OnAttachDevice}]\n");
    assert_eq!(deploy("plugin", &[]).code, 1);
    write(&hook, "hook.yaml", "hookPoints: [{name: OnDefineDomain}]\n");
    let narrowed = deploy("plugin", &["--json"]).json()["result"].clone();
    assert_eq!(narrowed["uncalledHookPoints"], json!([]));
}

/// KubeVirt's launcher returns after the first sidecar with PreCloudInitIso.
#[test]
fn a_second_sidecar_with_cloud_init_is_warned_about() {
    let temp_dir = tempfile::tempdir().unwrap();
    let vm = write(temp_dir.path(), "vm.yaml", VM);
    let alone = VM.replace("[{\"image\": \"other\"}]", "[]");
    let alone = write(temp_dir.path(), "alone.yaml", &alone);
    let warning =
        "the VM has 2 hook sidecars, and KubeVirt's own launcher calls PreCloudInitIso of one only";
    let deploy = |example: &str, vm: &Path| {
        let module = super::served_sidecar::example(example);
        let module = ["deploy", text(&module), "--as", "sidecar", "--name", "hook"];
        let image = ["--image", "registry.example/virt-hook:1"];
        let vm = ["--namespace", "shop", "--vm", text(vm)];
        let deployed = virt_hook(&[&module[..], &image, &vm].concat());
        (deployed.err.contains(warning), deployed.ok())
    };
    let (is_warned, printed) = deploy("cloud-init-hook", &vm);
    assert!(is_warned, "{printed}");
    assert!(
        printed.contains("# KubeVirt's own launcher calls PreCloudInitIso of one sidecar only")
    );
    assert!(!deploy("cloud-init-hook", &alone).0);
    assert!(!deploy("smbios-hook", &vm).0);
}

#[test]
fn what_a_cluster_would_refuse_is_refused_with_a_way_out() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = hook(temp_dir.path(), "smbios");
    let vm = write(temp_dir.path(), "vm.yaml", VM);
    let pod = write(
        temp_dir.path(),
        "pod.yaml",
        "kind: Pod\nmetadata: {name: a}\n",
    );
    let not_wasm = write(temp_dir.path(), "text.wasm", "no module");
    let underscore = temp_dir.path().join("smbios_hook.wasm");
    fs::copy(smbios(), &underscore).unwrap();
    let large = padded(temp_dir.path(), 1 << 20);
    let settings = hook(temp_dir.path(), "with-settings");
    write(&settings, "hook.yaml", "priority: 3\n");
    let several = temp_dir.path().join("several");
    fs::create_dir(&several).unwrap();
    hook(&several, "one");
    hook(&several, "two");
    let list = "kind: List\nitems: [{kind: VirtualMachine}, {kind: VirtualMachine}]\n";
    let list = write(temp_dir.path(), "list.yaml", list);
    let (module, vm, pod, list) = (text(&module), text(&vm), text(&pod), text(&list));
    let image = ["--image", "registry.example/hooks:1"];
    let cases: &[(i32, &[&str], &[&str], &str)] = &[
        (2, &[module, "--as", "image"], &[], "--image is missing"),
        (2, &[module, "--as", "plugin"], &[], "--image is missing"),
        (
            2,
            &[module, "--as", "sidecar"],
            &[],
            "--as sidecar needs --image",
        ),
        (
            2,
            &[module, "--as", "configmap"],
            &image,
            "takes no --image",
        ),
        (
            2,
            &[module, "--as", "plugin", "--vm", vm],
            &image,
            "takes no --vm",
        ),
        (
            2,
            &[module, "--as", "configmap", "--counted"],
            &[],
            "--counted is for --as image",
        ),
        (
            2,
            &[module, "--as", "image", "--image", "hooks:1"],
            &[],
            "\"hooks:1\" is not a reference",
        ),
        (
            2,
            &[module, "--as", "configmap", "--name", "A.b"],
            &[],
            "--name a-b",
        ),
        (
            2,
            &[module, "--as", "configmap", "--name", "image-smbios"],
            &[],
            "names that begin with image-",
        ),
        (
            2,
            &[module, "--as", "configmap", "--namespace", "A"],
            &[],
            "--namespace A: ",
        ),
        (
            2,
            &[module, "--as", "configmap", "--domain", "a/b"],
            &[],
            "--domain a/b: ",
        ),
        (
            2,
            &[text(&underscore), "--as", "configmap"],
            &[],
            "--name smbios-hook",
        ),
        (
            2,
            &[text(&several), "--as", "configmap"],
            &[],
            "it has 2 modules",
        ),
        (
            2,
            &[text(&settings), "--as", "sidecar"],
            &image,
            "without this hook.yaml",
        ),
        (2, &[text(&not_wasm), "--as", "configmap"], &[], "text.wasm"),
        (
            1,
            &[text(&large), "--as", "configmap"],
            &[],
            "use --as image",
        ),
        (
            1,
            &[text(&large), "--as", "sidecar"],
            &image,
            "build an image with virt-hook",
        ),
        (
            2,
            &[module, "--as", "configmap", "--vm", vm],
            &[],
            "add --namespace shop",
        ),
        (
            2,
            &[module, "--as", "configmap", "--vm", pod],
            &[],
            "this is a Pod",
        ),
        (
            2,
            &[module, "--as", "configmap", "--vm", list],
            &[],
            "this is a List of 2: --vm is the manifest of one VM",
        ),
        (
            2,
            &[module, "--as", "image", "--vm", vm, "--namespace", "shop"],
            &["--image", "registry.example/hooks:2"],
            "a VM's modules come from one image",
        ),
    ];
    for (code, arguments, more, expected) in cases {
        let output = virt_hook(&[&["deploy"], *arguments, *more].concat());
        assert_eq!(output.code, *code, "{arguments:?}: {}", output.err);
        assert!(
            output.err.contains(expected),
            "{arguments:?}: {}",
            output.err
        );
        assert_eq!(output.err.lines().count(), 1, "{}", output.err);
    }
}
