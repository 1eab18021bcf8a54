//! Applies the manifests that `virt-hook deploy` prints, and checks that the policies add the module to launcher pods.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use tests::binaries::binary;
use tests::build_and_install_hooks::example;

use crate::admission_request::Request;
use crate::emulated_api_server::ApiServer;
use crate::pod_additions::{PodAdditions, additions};
use crate::pod_corpus::{pod, pods, starts_a_vm};
use crate::policy_files::Policies;
use crate::shipped_policies::{image_volume, server_with_policies, strings};

const IMAGE: &str = "registry.example/hooks:1";
const VM: &str = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web}\nspec:\n  \
    runStrategy: Always\n  template:\n    spec:\n      domain: {devices: {}}\n";

/// Runs `virt-hook deploy` for the smbios example with the name `smbios`, and returns the printed objects.
pub(crate) fn deploy(arguments: &[&str]) -> Vec<Json> {
    let module = example("smbios-hook").unwrap();
    let mut program = Command::new(binary("virt-hook").unwrap());
    program.arg("deploy").arg(module);
    program.args(["--name", "smbios"]).args(arguments);
    program.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = program.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(VM.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The annotations that KubeVirt copies from a VM's template to the pod.
fn template_annotations(vm: &Json) -> Json {
    assert_eq!(vm["kind"], "VirtualMachine");
    assert_eq!(vm["spec"]["runStrategy"], "Always");
    vm["spec"]["template"]["metadata"]["annotations"].clone()
}

/// Checks the additions to every launcher pod of the corpus with these annotations. Other pods must not be changed.
fn check_additions(server: &ApiServer, annotations: &Json, expected: &PodAdditions) {
    for (name, mut pod) in pods() {
        for (key, value) in annotations.as_object().unwrap() {
            pod["metadata"]["annotations"][key] = value.clone();
        }
        let stored = server.admit(Request::create(pod.clone())).unwrap();
        if starts_a_vm(&name) {
            assert_eq!(&additions(&pod, &stored), expected, "{name}");
        } else {
            assert_eq!(stored, pod, "{name}");
        }
    }
}

#[test]
fn a_config_map_becomes_a_standing_hook() {
    let objects = deploy(&["--as", "configmap", "--vm", "-"]);
    let [config_map, vm] = &objects[..] else {
        panic!("{objects:?}");
    };
    assert_eq!(config_map["kind"], "ConfigMap");
    assert_eq!(config_map["metadata"]["namespace"], "default");
    let module = STANDARD.decode(config_map["binaryData"]["hook.wasm"].as_str().unwrap());
    let built = fs::read(example("smbios-hook").unwrap()).unwrap();
    assert!(module.unwrap() == built, "the module in the ConfigMap");

    let name = config_map["metadata"]["name"].as_str().unwrap();
    let volume = json!({"name": format!("wasm-config-map-{name}"), "configMap": {"name": name, "defaultMode": 292}});
    let expected = PodAdditions {
        volumes: vec![volume],
        mounts: strings(&["wasm-config-map-smbios /etc/virt-launcher/hooks/smbios -"]),
        counted: 0,
    };
    let server = server_with_policies(&["standing-hooks-from-config-map"]);
    check_additions(&server, &template_annotations(vm), &expected);
}

#[test]
fn an_image_becomes_a_standing_hook_or_a_counted_one() {
    let server = server_with_policies(&["standing-hooks-from-image", "counted-hooks-from-image"]);
    let cases = [
        (
            &["--as", "image", "--image", IMAGE, "--vm", "-"][..],
            "wasm-standing-hooks",
            "/etc/virt-launcher/hooks/smbios",
            0,
        ),
        (
            &["--as", "image", "--image", IMAGE, "--vm", "-", "--counted"],
            "wasm-hooks",
            "/var/run/kubevirt-hooks/wasm-smbios",
            1,
        ),
    ];
    for (arguments, volume, mount, counted) in cases {
        let objects = deploy(arguments);
        let expected = PodAdditions {
            volumes: vec![image_volume(volume, IMAGE)],
            mounts: vec![format!("{volume} {mount} smbios")],
            counted,
        };
        let [vm] = &objects[..] else {
            panic!("{objects:?}");
        };
        check_additions(&server, &template_annotations(vm), &expected);
    }
}

#[test]
fn a_plugin_finds_its_module_beside_its_socket() {
    for version in ["v1", "v1beta1"] {
        let arguments = ["--as", "plugin", "--image", IMAGE, "--api-version", version];
        let mut objects = deploy(&arguments);
        let plugin = objects.pop().unwrap();
        assert_eq!(plugin["kind"], "Plugin");
        assert_eq!(plugin["metadata"]["name"], "smbios");
        assert_eq!(
            plugin["spec"]["domainHooks"][0]["sidecar"]["socketPath"],
            "/var/run/kubevirt-plugin/smbios/hook.sock"
        );
        let mut policies = Policies::default();
        policies.add(version, "virt-hook deploy", objects);
        let expected = PodAdditions {
            volumes: vec![image_volume("wasm-plugin-smbios", IMAGE)],
            mounts: strings(&["wasm-plugin-smbios /var/run/kubevirt-plugin/smbios smbios"]),
            counted: 0,
        };
        check_additions(&ApiServer::new(policies), &json!({}), &expected);
    }
}

#[test]
fn a_plugin_is_for_the_vms_of_its_label_and_namespace_only() {
    let canary = "wasm-hooks.example.com/canary";
    let arguments = [
        "--as",
        "plugin",
        "--image",
        IMAGE,
        "--for-namespace",
        "shop",
    ];
    let label = format!("{canary}=true");
    let mut objects = deploy(&[&arguments[..], &["--label", &label]].concat());
    let plugin = objects.pop().unwrap();
    let condition = format!(
        "'{canary}' in vmi.Labels && vmi.Labels['{canary}'] == 'true' && vmi.Namespace == 'shop'"
    );
    assert_eq!(plugin["spec"]["condition"], condition);

    let mut policies = Policies::default();
    policies.add("v1", "virt-hook deploy", objects);
    let server = ApiServer::new(policies);
    for (label, namespace, mounted) in [
        (Some("true"), "shop", true),
        (Some("false"), "shop", false),
        (None, "shop", false),
        (Some("true"), "default", false),
    ] {
        let mut request = Request::create(pod("plain"));
        request.namespace["metadata"]["name"] = namespace.into();
        if let Some(value) = label {
            request.object["metadata"]["labels"][canary] = value.into();
        }
        let stored = server.admit(request.clone()).unwrap();
        assert_eq!(stored != request.object, mounted, "{label:?} {namespace}");
    }
}

#[test]
fn a_sidecar_runs_under_the_minimal_policy() {
    let image = "registry.example/virt-hook:0.1";
    let objects = deploy(&["--as", "sidecar", "--image", image, "--vm", "-"]);
    let [config_map, vm] = &objects[..] else {
        panic!("{objects:?}");
    };
    let annotations = template_annotations(vm);
    let sidecars = annotations["hooks.kubevirt.io/hookSidecars"].as_str();
    let sidecars: Json = serde_json::from_str(sidecars.unwrap()).unwrap();
    let policy = sidecars[0]["args"][4].as_str().unwrap().to_owned();
    let path = "/hooks/smbios.wasm";
    assert_eq!(
        sidecars,
        json!([{
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "args": ["serve", "--module", path, "--policy", policy],
            "configMap": {"name": config_map["metadata"]["name"], "key": "hook.wasm", "hookPath": path},
        }])
    );
    assert!(config_map["binaryData"]["hook.wasm"].is_string());

    let temp_dir = tempfile::tempdir().unwrap();
    let file = temp_dir.path().join("policy.yaml");
    fs::write(&file, policy).unwrap();
    let output = Command::new(binary("virt-hook").unwrap())
        .args(["policy", "check"])
        .arg(file)
        .arg("--module")
        .arg(example("smbios-hook").unwrap())
        .output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
}
