//! `render` of VirtualMachines, lists, and manifests with mistakes.

use serde_json::{Value, json};

use super::{failure, render, virt_hook, warnings, xml};

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
    let without_server_fields = xml(&virt_hook(&["render", "--vmi", "-"], yaml.as_bytes()));
    assert!(
        without_server_fields.contains("<name>ns_vm</name>"),
        "{without_server_fields}"
    );
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

#[test]
fn template_of_a_virtual_machine_is_rendered_with_a_note() {
    let output = render(&[], VIRTUAL_MACHINE.as_bytes());
    let actual = xml(&output);
    assert!(
        actual.contains("<name>ns_web</name>") && actual.contains(">67108864</memory>"),
        "{actual}"
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
    let actual = xml(&output);
    for part in [
        "<entry name='uuid'>",
        "<entry name='serial'>",
        "<acpi>",
        "<vapic state='on'>",
        "<vpindex state='on'>",
        "<synic state='on'>",
        "<feature name='vmx' policy='require'>",
        "tray='closed'",
        "<input type='tablet' bus='usb'>",
    ] {
        assert!(actual.replace('"', "'").contains(part), "{part}: {actual}");
    }
    let stderr = warnings(&output);
    let defaults_note = "Hyper-V features that others need, input devices)";
    assert!(stderr.contains(defaults_note), "{stderr}");
    assert_eq!(xml(&render(&[], machine.as_bytes())), actual);
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
        let actual = xml(&render(&["--vmi-name", name], several.as_bytes()));
        assert!(actual.contains("<name>ns_b</name>"), "{actual}");
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
fn there_is_a_limit_to_what_is_read() {
    let vmi = json!({"metadata": {"name": "x".repeat(4 * 1024 * 1024)}}).to_string();
    let (code, stderr) = failure(&render(&[], vmi.as_bytes()));
    assert_eq!(code, 2);
    assert!(
        stderr.contains("more than the 4194304 that are read"),
        "{stderr}"
    );
}
