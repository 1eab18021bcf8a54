//! `virt-hook render` as its users run it.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use domain_xml::{ChangeKind, Document, diff};
use serde_json::{Value, json};

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/corpus/vmi-to-domain-xml")
        .join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs with arguments and standard input.
fn virt_hook(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_virt-hook"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may end without having read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn render(more: &[&str], vmi: &[u8]) -> Output {
    let host = corpus("host.json");
    virt_hook(
        &[&["render", "--vmi", "-", "--host", text(&host)], more].concat(),
        vmi,
    )
}

fn xml(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Exit code and the one line of standard error.
fn failure(output: &Output) -> (i32, String) {
    assert!(output.stdout.is_empty());
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("virt-hook: "), "{stderr}");
    (output.status.code().unwrap(), stderr)
}

/// Differences but for the order of elements of different names.
fn differences(ours: &str, theirs: &str) -> Vec<String> {
    let (ours, theirs) = (
        Document::parse(ours).unwrap(),
        Document::parse(theirs).unwrap(),
    );
    let changes = diff(&theirs, &ours)
        .into_iter()
        .filter(|change| !matches!(change.kind, ChangeKind::Moved));
    changes.map(|change| format!("{change:?}")).collect()
}

fn minimal() -> Value {
    serde_json::from_slice(&fs::read(corpus("minimal.vmi.json")).unwrap()).unwrap()
}

#[test]
fn the_corpus_comes_out_as_kubevirt_has_it() {
    let host = corpus("host.json");
    for name in [
        "minimal",
        "typical-fedora",
        "cloudinit-configdrive",
        "kernel-boot",
    ] {
        let [vmi, options] = ["vmi", "options"].map(|kind| corpus(&format!("{name}.{kind}.json")));
        let arguments = [
            "render",
            "--vmi",
            text(&vmi),
            "--options",
            text(&options),
            "--host",
            text(&host),
        ];
        let expected = fs::read_to_string(corpus(&format!("{name}.xml"))).unwrap();
        let found = xml(&virt_hook(&arguments, b""));
        assert_eq!(differences(&found, &expected), [] as [String; 0], "{name}");
        let prepared = fs::read_to_string(corpus(&format!("{name}.driver-modes.xml"))).unwrap();
        let found = xml(&virt_hook(&[&arguments[..], &["--prepared"]].concat(), b""));
        assert_eq!(
            differences(&found, &prepared),
            [] as [String; 0],
            "{name}, prepared"
        );
    }
}

#[test]
fn yaml_and_json_from_standard_input_give_the_same() {
    let yaml = "metadata: {name: vm, namespace: ns}\nspec:\n  domain:\n    devices: {}\n    memory:\n      guest: 64Mi\n";
    let json = json!({"metadata": {"name": "vm", "namespace": "ns"},
        "spec": {"domain": {"devices": {}, "memory": {"guest": "64Mi"}}}});
    let from_yaml = xml(&render(&[], yaml.as_bytes()));
    assert!(
        from_yaml.contains("<name>ns_vm</name>") && from_yaml.ends_with("</domain>\n"),
        "{from_yaml}"
    );
    assert_eq!(from_yaml, xml(&render(&[], json.to_string().as_bytes())));
    let here = xml(&virt_hook(&["render", "--vmi", "-"], yaml.as_bytes()));
    assert!(here.contains("<name>ns_vm</name>"), "{here}");
}

#[test]
fn refusal_of_a_vmi_has_kubevirts_text() {
    let vmi = corpus("input-keyboard.vmi.json");
    let message = fs::read_to_string(corpus("input-keyboard.error")).unwrap();
    let (code, stderr) = failure(&virt_hook(&["render", "--vmi", text(&vmi)], b""));
    assert_eq!(code, 1);
    assert!(stderr.trim_end().ends_with(message.trim()), "{stderr}");
}

#[test]
fn non_vmi_input_is_unusable_and_an_invalid_vmi_is_refused() {
    for (vmi, expected, part) in [
        (&b"{\"metadata\": "[..], 2, "not valid JSON"),
        (b"[]", 2, "it holds an empty list and nothing else: give"),
        (b"", 2, "it is empty"),
        (b"\xff\xfe", 2, "UTF-16"),
        (b"kind: Pod", 2, "this is a Pod"),
        (b"metadata: {name: a, name: b}", 2, "\"name\" is repeated"),
        (b"{\"spec\": {}}", 1, "metadata.name"),
        (
            b"{\"metadata\": {\"name\": \"vm\"}, \"spec\": {\"volumes\": 7}}",
            1,
            "spec.volumes",
        ),
    ] {
        let (code, stderr) = failure(&render(&[], vmi));
        assert_eq!(code, expected, "{stderr}");
        assert!(stderr.contains(part), "{stderr}");
    }
}

const VIRTUAL_MACHINE: &str = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\n\
    metadata: {name: web, namespace: ns}\nspec:\n  template:\n    \
    spec: {domain: {devices: {}, memory: {guest: 64Mi}}}\n";

fn warnings(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn template_of_a_virtual_machine_is_rendered_with_a_note() {
    let output = render(&[], VIRTUAL_MACHINE.as_bytes());
    let found = xml(&output);
    assert!(
        found.contains("<name>ns_web</name>") && found.contains(">67108864</memory>"),
        "{found}"
    );
    let stderr = warnings(&output);
    assert!(
        stderr.starts_with(
            "virt-hook: warning: standard input: this is a VirtualMachine: its spec.template"
        ) && stderr.lines().count() == 1,
        "{stderr}"
    );
    let json: Value =
        serde_json::from_str(&xml(&render(&["--json"], VIRTUAL_MACHINE.as_bytes()))).unwrap();
    assert_eq!(json["warnings"].as_array().unwrap().len(), 1, "{json}");
}

#[test]
fn kubevirts_defaults_of_a_virtual_machine_are_in_its_domain() {
    let machine = "kind: VirtualMachine\nmetadata: {name: web, namespace: ns}\nspec:\n  template:\n    spec:\n      \
        domain:\n        memory: {guest: 64Mi}\n        features: {hyperv: {synictimer: {}, evmcs: {}}}\n        \
        devices:\n          disks: [{name: seed, cdrom: {}}]\n          inputs: [{name: tablet}]\n      \
        volumes: [{name: seed, cloudInitNoCloud: {userData: a}}]\n";
    let output = render(&[], machine.as_bytes());
    let found = xml(&output);
    for part in [
        "<entry name='uuid'>",
        "<entry name='serial'>",
        "<acpi/>",
        "<vapic state='on'/>",
        "<vpindex state='on'/>",
        "<synic state='on'/>",
        "<feature name='vmx' policy='require'/>",
        "tray='closed'",
        "<input type='tablet' bus='usb'>",
    ] {
        assert!(found.replace('"', "'").contains(part), "{part}: {found}");
    }
    let stderr = warnings(&output);
    let named = "Hyper-V features that others need, input devices)";
    assert!(stderr.contains(named), "{stderr}");
    assert_eq!(xml(&render(&[], machine.as_bytes())), found);
}

#[test]
fn of_a_list_the_named_vmi_is_rendered() {
    let item = |name: &str| {
        json!({"kind": "VirtualMachineInstance", "metadata": {"name": name, "namespace": "ns"},
            "spec": {"domain": {"memory": {"guest": "64Mi"}}}})
    };
    let list = |items: Value| json!({"kind": "List", "items": items}).to_string();
    let only = xml(&render(&[], list(json!([item("a")])).as_bytes()));
    assert!(only.contains("<name>ns_a</name>"), "{only}");
    let several = list(json!([item("a"), item("b")]));
    let (code, stderr) = failure(&render(&[], several.as_bytes()));
    assert_eq!(code, 2);
    assert!(
        stderr.contains("ns/a, ns/b: choose one with --vmi-name"),
        "{stderr}"
    );
    for name in ["b", "ns/b"] {
        let found = xml(&render(&["--vmi-name", name], several.as_bytes()));
        assert!(found.contains("<name>ns_b</name>"), "{found}");
    }
    let (code, stderr) = failure(&render(&["--vmi-name", "c"], several.as_bytes()));
    assert_eq!(code, 2);
    assert!(
        stderr.contains("it has no VMI c; it has ns/a, ns/b"),
        "{stderr}"
    );
}

#[test]
fn misspelt_fields_and_missing_memory_are_reported() {
    let output = render(
        &[],
        b"metadata: {name: vm}\nspec: {domain: {memroy: {guest: 64Mi}}}\n",
    );
    xml(&output);
    let stderr = warnings(&output);
    for part in [
        "spec.domain.memroy is unknown to KubeVirt 1.9: is it memory?",
        "spec.domain.memory.guest is missing",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
}

#[test]
fn error_contains_the_path_of_an_unusable_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str, content: &str| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        text(&path).to_owned()
    };
    let (bad_json, no_module) = (path("bad.json", "{"), path("no.wasm", "garbage"));
    let empty = text(directory.path()).to_owned() + "/empty";
    fs::create_dir(&empty).unwrap();
    let vmi = minimal().to_string();
    for arguments in [
        ["--options", &bad_json],
        ["--hook", &no_module],
        ["--hook", &empty],
        ["--hook", "/nonexistent/hook.wasm"],
        ["--options", "/nonexistent/options.json"],
    ] {
        let (code, stderr) = failure(&render(&arguments, vmi.as_bytes()));
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(arguments[1]), "{stderr}");
    }
    assert_eq!(virt_hook(&["render"], b"").status.code(), Some(2));
}

#[test]
fn there_is_a_limit_to_what_is_read() {
    let vmi = json!({"metadata": {"name": "x".repeat(4 * 1024 * 1024)}}).to_string();
    let (code, stderr) = failure(&render(&[], vmi.as_bytes()));
    assert_eq!(code, 2);
    assert!(
        stderr.contains("more than the 4194304 that are read"),
        "{stderr}"
    );
}

#[test]
fn a_hook_that_render_does_not_call_is_warned_about() {
    let module = tests::build_and_install_hooks::example("cloud-init-hook").unwrap();
    let arguments = ["--hook", text(&module), "--diff"];
    let output = render(&arguments, minimal().to_string().as_bytes());
    assert_eq!(xml(&output), "");
    let said = warnings(&output);
    let expected =
        "was not called: render calls PreStart and OnDefineDomain, and it has PreCloudInitIso";
    assert!(
        said.contains("virt-hook: warning: the hook cloud") && said.contains(expected),
        "{said}"
    );
}

#[test]
fn hooks_change_the_domain() {
    let module = tests::build_and_install_hooks::example("smbios-hook").unwrap();
    let mut vmi = minimal();
    let plain = xml(&render(&[], vmi.to_string().as_bytes()));
    let unasked = xml(&render(
        &["--hook", text(&module)],
        vmi.to_string().as_bytes(),
    ));
    assert_eq!(
        unasked, plain,
        "a hook that is not asked for anything leaves every byte alone"
    );

    vmi["metadata"]["annotations"]["smbios.vm.kubevirt.io/baseBoardManufacturer"] =
        "Sirius & Sons".into();
    let pod = tempfile::tempdir().unwrap();
    fs::create_dir_all(pod.path().join("hooks/hook-sidecar-0")).unwrap();
    fs::copy(&module, pod.path().join("hooks/hook-sidecar-0/smbios.wasm")).unwrap();
    for path in [
        module,
        pod.path().join("hooks"),
        pod.path().join("hooks/hook-sidecar-0"),
    ] {
        let output = render(
            &["--hook", text(&path), "--verbose"],
            vmi.to_string().as_bytes(),
        );
        let found = xml(&output);
        assert!(found.contains(">Sirius &amp; Sons</entry>"), "{found}");
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(
            log.contains("OnDefineDomain") && log.contains("baseBoard"),
            "{log}"
        );
    }
}

#[test]
fn help_explains_itself() {
    let help = String::from_utf8(virt_hook(&["render", "--help"], b"").stdout).unwrap();
    for part in [
        "--vmi",
        "--options",
        "--host",
        "--hook",
        "--prepared",
        "Examples:",
        "Exit codes:",
    ] {
        assert!(help.contains(part), "{help}");
    }
}

#[test]
fn render_needs_no_libvirt() {
    let binary = fs::read(env!("CARGO_BIN_EXE_virt-hook")).unwrap();
    let needle = b"libvirt.so";
    assert!(!binary.windows(needle.len()).any(|window| window == needle));
}

#[test]
fn hotplug_ports_are_rendered_as_far_as_they_are_determined_by_the_vmi() {
    let rendered = |case: &str, more: &[&str]| {
        let vmi = fs::read(corpus(&format!("{case}.vmi.json"))).unwrap();
        let options = corpus(&format!("{case}.options.json"));
        let options = ["--options", text(&options), "--prepared"];
        xml(&render(&[&options, more].concat(), &vmi))
    };
    let ports = |xml: &str| xml.matches("pcie-root-port").count();
    let first = rendered("typical-fedora", &["--room"]);
    assert!(
        first.starts_with("<!-- ") && first.contains("3 placeholder interfaces, with 4 spare"),
        "{first}"
    );
    assert_eq!(first.matches("placeholder-").count(), 3, "{first}");
    let only = rendered("net-none", &["--room"]);
    assert!(!only.contains("placeholder"), "{only}");
    assert_eq!(ports(&only), ports(&rendered("net-none", &[])) + 4);
    let report: Value = serde_json::from_str(&rendered("net-none", &["--room", "--json"])).unwrap();
    assert_eq!(
        report["result"]["room"],
        json!({"placeholderInterfaces": 0, "spareRootPorts": 4})
    );
}
