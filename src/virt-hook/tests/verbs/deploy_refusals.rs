//! `deploy`: input that is refused before a cluster refuses it.

use std::fs;
use std::path::{Path, PathBuf};

use super::deploy::{VM, hook};
use super::example_modules::example;
use super::{smbios, text, virt_hook, write};

/// The module of the smbios example with an additional custom section of this size.
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

/// The policy of a sidecar is in the annotation: a module must not grant itself the dangerous set by it.
#[test]
fn policy_of_a_sidecar_does_not_grant_the_modules_dangerous_wishes() {
    let temp_dir = tempfile::tempdir().unwrap();
    let hook = temp_dir.path().join("args");
    fs::create_dir(&hook).unwrap();
    fs::copy(example("qemu-args-hook"), hook.join("hook.wasm")).unwrap();
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

/// KubeVirt calls no other hook points, and fails the start of every VM for a Plugin without the right ones.
#[test]
fn a_module_is_refused_on_a_route_that_calls_none_of_its_hook_points() {
    let image = ["--image", "registry.example/hooks:1"];
    let cases = [
        ("cloud-init-hook", "plugin", "PreCloudInitIso"),
        ("shutdown-audit-hook", "plugin", "Shutdown"),
        ("migration-tuning-hook", "sidecar", "PreMigrationSource"),
    ];
    for (hook, route, point) in cases {
        let module = example(hook);
        let arguments = ["deploy", text(&module), "--as", route, "--name", "hook"];
        let refused = virt_hook(&[&arguments[..], &image].concat());
        assert_eq!(refused.code, 1, "{hook}: {}{}", refused.out, refused.err);
        assert_eq!(refused.out, "");
        for part in [&format!("has only {point}"), "--as configmap or image"] {
            assert!(refused.err.contains(part), "{part}: {}", refused.err);
        }
        let image_route = ["deploy", text(&module), "--as", "image", "--name", "hook"];
        virt_hook(&[&image_route[..], &image].concat()).success_stdout();
    }
    for hook in ["cloud-init-hook", "shutdown-audit-hook"] {
        let module = example(hook);
        let arguments = ["deploy", text(&module), "--as", "sidecar", "--name", "hook"];
        virt_hook(&[&arguments[..], &image].concat()).success_stdout();
    }
}

#[test]
fn input_that_a_cluster_would_refuse_is_refused_with_a_remedy() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = hook(temp_dir.path(), "smbios");
    let vm = write(temp_dir.path(), "vm.yaml", VM);
    let pod = write(
        temp_dir.path(),
        "pod.yaml",
        "kind: Pod\nmetadata: {name: a}\n",
    );
    let not_wasm = write(temp_dir.path(), "text.wasm", "no module");
    let capitals = temp_dir.path().join("SmbiosHook.wasm");
    fs::copy(smbios(), &capitals).unwrap();
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
            &[text(&capitals), "--as", "configmap"],
            &[],
            "--name smbioshook",
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
