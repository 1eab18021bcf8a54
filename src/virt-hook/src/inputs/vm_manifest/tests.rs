#![allow(clippy::unwrap_used)]

use std::path::Path;

use serde_json::json;

use super::*;

fn one(text: &str) -> Manifest {
    let mut found = read(text.as_bytes()).unwrap();
    assert_eq!(found.len(), 1, "{text}");
    found.remove(0)
}

fn error(text: &str) -> String {
    read(text.as_bytes()).unwrap_err().to_string()
}

const VMI_TEXT: &str = "kind: VirtualMachineInstance\nmetadata: {name: web, namespace: ns}\n\
    spec: {domain: {devices: {}, memory: {guest: 1Gi}}}\nstatus: {phase: Running}\n";
const VM_TEXT: &str = "kind: VirtualMachine\nmetadata: {name: web, namespace: ns, uid: u}\n\
    spec:\n  template:\n    metadata: {annotations: {a: b}}\n    \
    spec: {domain: {devices: {}, memory: {guest: 1Gi}}}\n";

#[test]
fn a_vmi_is_used_as_it_is() {
    let found = one(VMI_TEXT);
    assert_eq!(found.notes, [""; 0]);
    assert_eq!(found.vmi.domain_name(), "ns_web");
    let json = "{ \"metadata\": {\"name\": \"web\", \"namespace\": \"ns\"}, \"spec\": {\"domain\": {\"memory\": {\"guest\": \"1Gi\"}}} }\n";
    assert_eq!(one(json).vmi.raw_json(), json);
}

#[test]
fn template_of_a_virtual_machine_is_used_with_a_note() {
    let found = one(VM_TEXT);
    assert_eq!(found.vmi.domain_name(), "ns_web");
    assert_eq!(
        (found.vmi.annotation("a"), found.vmi.uid()),
        (Some("b"), "")
    );
    assert_eq!(
        found
            .vmi
            .spec
            .domain
            .memory
            .as_ref()
            .and_then(|m| m.guest)
            .map(|_| ()),
        Some(())
    );
    let [note] = &found.notes[..] else {
        panic!("{:?}", found.notes)
    };
    assert!(
        note.contains("this is a VirtualMachine") && note.contains("spec.template"),
        "{note}"
    );
    assert!(!note.contains("instance type"), "{note}");
    let vmi: Value = serde_json::from_str(found.vmi.raw_json()).unwrap();
    let owner = &vmi["metadata"]["ownerReferences"][0];
    assert_eq!(
        [&owner["kind"], &owner["name"], &owner["uid"]],
        ["VirtualMachine", "web", "u"]
    );

    let typed = VM_TEXT.replace(
        "spec:\n  template",
        "spec:\n  instancetype: {name: u1.small}\n  template",
    );
    let notes = one(&typed.replace(", memory: {guest: 1Gi}", "")).notes;
    let [_, note] = &notes[..] else {
        panic!("{notes:?}")
    };
    for part in [
        "its instance type is not applied",
        "virtctl expand --vm",
        "kubectl get vmi",
    ] {
        assert!(note.contains(part), "{note}");
    }
    let both = typed.replace("  template", "  preference: {name: fedora}\n  template");
    assert!(one(&both).notes[1].contains("its instance type and its preference are not applied"));
    assert_eq!(
        one(&VM_TEXT.replace(", namespace: ns", "")).vmi.namespace(),
        "default"
    );
    let misspelt = VM_TEXT.replace("memory:", "memroy:");
    let notes = one(&misspelt).notes;
    assert!(
        notes[1].contains("spec.template.spec.domain.memroy") && notes[1].contains("is it memory?"),
        "{notes:?}"
    );
    assert!(notes[2].contains("memory.guest is missing"), "{notes:?}");
}

/// The shape that `virtctl create vm` prints.
#[test]
fn defaults_of_kubevirt_are_set_and_noted() {
    let created = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {creationTimestamp: null, name: web}\n\
        spec:\n  dataVolumeTemplates: []\n  runStrategy: Always\n  template:\n    metadata: {creationTimestamp: null}\n    \
        spec:\n      domain:\n        devices: {disks: [{name: root, bootOrder: 1}]}\n        memory: {guest: 512Mi}\n        \
        resources: {limits: {cpu: 4}}\n      terminationGracePeriodSeconds: 180\n      volumes:\n      \
        - {name: root, containerDisk: {image: a}}\n      - {name: cloudinitdisk, cloudInitNoCloud: {userData: b}}\nstatus: {}\n";
    let found = one(created);
    let vmi: Value = serde_json::from_str(found.vmi.raw_json()).unwrap();
    assert_eq!(
        vmi["spec"]["domain"]["devices"]["disks"],
        json!([
            {"name": "root", "bootOrder": 1, "disk": {"bus": "sata"}},
            {"name": "cloudinitdisk", "disk": {"bus": "sata"}},
        ])
    );
    assert_eq!(vmi["spec"]["domain"]["cpu"]["sockets"], 4);
    assert_eq!(vmi["spec"]["networks"][0]["name"], "default");
    let note = "this is a VirtualMachine: its spec.template is used, with KubeVirt's defaults (CPU sockets, \
        the network interface, disks of volumes, disk targets, disk buses), without the cluster's defaults";
    assert_eq!(found.notes, [note]);
}

/// The VMI has the metadata of the template alone.
#[test]
fn annotations_that_are_not_in_the_template_are_noted() {
    let own = "annotations: {a: other, smbios.vm.kubevirt.io/baseBoardManufacturer: ACME, \
        kubectl.kubernetes.io/last-applied-configuration: '{}', kubevirt.io/latest-observed-api-version: v1}, \
        labels: {app: web, app.kubernetes.io/name: web, name.os.template.kubevirt.io/fedora: x}";
    let text = VM_TEXT.replace("uid: u", &format!("uid: u, {own}"));
    let notes = one(&text).notes;
    let [_, annotations, labels] = &notes[..] else {
        panic!("{notes:?}")
    };
    for part in [
        "metadata.annotations of the VirtualMachine",
        "do not see them: smbios.vm.kubevirt.io/baseBoardManufacturer; ",
        "spec.template.metadata.annotations",
    ] {
        assert!(annotations.contains(part), "{annotations}");
    }
    assert!(labels.contains("do not see them: app; "), "{labels}");
}

#[test]
fn a_vmi_gets_the_defaults_unless_it_is_of_a_cluster_or_an_extract() {
    let without_status = VMI_TEXT.replace("status: {phase: Running}", "status: {}");
    let found = one(&without_status);
    let note = "this VMI is of no cluster, and gets KubeVirt's defaults: the network interface";
    assert_eq!(found.notes, [note]);
    assert!(found.vmi.raw_json().contains("\"bridge\""));
    let extract = without_status.replace("kind: VirtualMachineInstance\n", "");
    for text in [VMI_TEXT, &extract] {
        let found = one(text);
        assert_eq!(found.notes, [""; 0]);
        assert!(!found.vmi.raw_json().contains("\"bridge\""));
    }
}

#[test]
fn all_items_of_a_list_are_found() {
    let item = |text: &str| format!("- {}", text.trim_end().replace('\n', "\n  "));
    for kind in LISTS {
        let list = format!(
            "kind: {kind}\nitems:\n{}\n{}\n",
            item(VMI_TEXT),
            item(VM_TEXT)
        );
        let found = read(list.as_bytes()).unwrap();
        assert_eq!(found.len(), 2, "{kind}");
    }
    assert_eq!(
        read(format!("{VMI_TEXT}---\n{VM_TEXT}").as_bytes())
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        read(format!("---\n{VMI_TEXT}---\n").as_bytes())
            .unwrap()
            .len(),
        1
    );
    let pod = format!("kind: List\nitems:\n{}\n- kind: Pod\n", item(VMI_TEXT));
    assert!(
        error(&pod).starts_with("item 2: this is a Pod, "),
        "{}",
        error(&pod)
    );
    let number = format!("kind: List\nitems:\n{}\n- 7\n", item(VMI_TEXT));
    let number = error(&number);
    assert!(
        number.starts_with("item 2: it holds the number 7 and nothing else"),
        "{number}"
    );
    assert_eq!(error("kind: List\nitems: []\n"), "the list has no items");
}

/// `kubectl get --raw` prints lists whose items have no kind.
#[test]
fn items_without_a_kind_have_that_of_their_list() {
    let machine = VM_TEXT.replace("kind: VirtualMachine\n", "");
    let item = format!("- {}", machine.trim_end().replace('\n', "\n  "));
    for (list, name) in [
        (
            format!("kind: VirtualMachineList\nitems:\n{item}\n"),
            "ns_web",
        ),
        (format!("kind: List\nitems:\n{item}\n"), "ns_web"),
        (machine.clone(), "ns_web"),
    ] {
        let found = one(&list);
        assert_eq!(found.vmi.domain_name(), name);
        assert!(
            found.notes[0].contains("this is a VirtualMachine"),
            "{:?}",
            found.notes
        );
        assert!(found.vmi.spec.domain.memory.is_some());
    }
    let without = machine.replace("template", "tempalte");
    let item = format!("- {}", without.trim_end().replace('\n', "\n  "));
    let list = format!("kind: VirtualMachineList\nitems:\n{item}\n");
    assert!(error(&list).contains("spec.template is missing"));
    let vmi = VMI_TEXT.replace("kind: VirtualMachineInstance\n", "");
    let item = format!("- {}", vmi.trim_end().replace('\n', "\n  "));
    let list = format!("kind: VirtualMachineInstanceList\nitems:\n{item}\n");
    assert_eq!(one(&list).notes, [""; 0]);
}

#[test]
fn vmi_without_a_namespace_is_in_default() {
    for text in [
        VMI_TEXT.replace(", namespace: ns", ""),
        VMI_TEXT.replace("namespace: ns", "namespace: ''"),
        "{\"metadata\": {\"name\": \"web\"}, \"spec\": {\"domain\": {\"memory\": {\"guest\": \"1Gi\"}}}}".to_owned(),
    ] {
        let found = one(&text);
        assert_eq!(found.vmi.domain_name(), "default_web", "{text}");
        assert!(found.vmi.raw_json().contains("\"default\""));
        let [note] = &found.notes[..] else {
            panic!("{:?}", found.notes)
        };
        assert!(note.contains("metadata.namespace is missing"), "{note}");
    }
}

#[test]
fn misspelt_fields_of_a_virtual_machine_are_noted() {
    let text = VM_TEXT.replace(
        "spec:\n  template",
        "spec:\n  runStrtegy: Always\n  dataVolumTemplates: []\n  template",
    );
    let text = text.replace("    metadata: {annotations", "    metadta: {annotations");
    let notes = one(&text).notes.join("\n");
    for part in [
        "spec.runStrtegy is unknown to KubeVirt 1.9: is it runStrategy?",
        "spec.dataVolumTemplates is unknown to KubeVirt 1.9: is it dataVolumeTemplates?",
        "spec.template.metadta is unknown to KubeVirt 1.9: is it metadata?",
    ] {
        assert!(notes.contains(part), "{notes}");
    }
    let known = VM_TEXT.replace(
        "spec:\n  template",
        "status: {x: 1}\nspec:\n  running: true\n  instancetype: {name: a}\n  preference: {kind: b}\n  \
         dataVolumeTemplates: [{metadata: {name: c}, spec: {any: d}}]\n  template",
    );
    assert_eq!(one(&known).notes.len(), 2, "{:?}", one(&known).notes);
}

#[test]
fn a_guest_without_a_byte_of_memory_is_noted() {
    for amount in ["0", "0.5"] {
        let notes = one(&VMI_TEXT.replace("1Gi", amount)).notes;
        assert!(notes[0].contains("less than a byte"), "{notes:?}");
    }
}

#[test]
fn a_vmi_of_another_api_is_refused() {
    let of = |version: &str| format!("apiVersion: {version}\n{VMI_TEXT}");
    let refused = error(&of("example.com/v1"));
    let reason = "this is a VirtualMachineInstance of example.com/v1, neither";
    assert!(refused.starts_with(reason), "{refused}");
    for version in ["kubevirt.io/v1", "kubevirt.io/v1alpha3"] {
        assert_eq!(one(&of(version)).notes, [""; 0]);
    }
}

#[test]
fn other_kinds_of_manifests_are_refused_by_kind() {
    for (text, part) in [
        ("", "it is empty"),
        ("---\n", "it is empty"),
        ("[]", "it holds an empty list and nothing else: give"),
        ("- a", "it holds a list of one value and nothing else: give"),
        ("- a\n- b", "it holds a list of 2 values and nothing"),
        ("text", "it holds the text \"text\" and nothing else: give"),
        ("two\nlines", "it holds the text \"two lines\" and"),
        ("42", "it holds the number 42 and"),
        ("-1.5", "it holds the number -1.5 and"),
        ("true", "it holds the truth value true and"),
        ("~", "it is empty: give"),
        (
            "{}",
            "it holds an object without kind, metadata and spec and",
        ),
        (
            "a: b",
            "it holds an object without kind, metadata and spec and",
        ),
        ("<domain type='kvm'/>", "it is XML: give"),
        ("\n <a>\n  b: c</a>", "it is XML: give"),
        ("\0asm", "it is binary data: give"),
        ("kind: ConfigMap\n", "this is a ConfigMap, neither"),
        ("a: [b", "not valid YAML"),
        ("Dear all: this\nis: no: manifest", "not valid YAML"),
        ("{\"a\": ", "not valid JSON"),
        (
            "kind: VirtualMachine\nmetadata: {name: vm}\n",
            "spec.template is missing",
        ),
        (
            "kind: VirtualMachine\nspec: {template: {}}\n",
            "metadata.name is missing",
        ),
    ] {
        let found = read(text.as_bytes()).unwrap_err();
        assert!(found.to_string().contains(part), "{text}: {found}");
        assert!(!found.is_refusal(), "{text}");
        let wants = found
            .to_string()
            .contains("the manifest of a VirtualMachineInstance or");
        assert!(
            wants || text.starts_with("kind: VirtualMachine\n"),
            "{found}"
        );
    }
    let long = error(&"word ".repeat(100));
    assert!(long.contains("... (459 more bytes)"), "{long}");
    for bytes in [&[0xff, 0xfe, b'a', 0][..], b"a: \xff"] {
        let found = read(bytes).unwrap_err().to_string();
        assert!(found.starts_with("it is "), "{found}");
    }
    let nameless = read(b"spec: {domain: {}}\n").unwrap_err();
    assert!(nameless.is_refusal() && nameless.to_string().contains("metadata.name is missing"));
}

#[test]
fn repeated_keys_are_refused() {
    let yaml = VMI_TEXT.replace("guest: 1Gi", "guest: 1Gi, guest: 2Gi");
    let found = error(&yaml);
    assert!(
        found.contains("\"guest\" is repeated") && found.contains("line 3"),
        "{found}"
    );
    let json = r#"{"metadata": {"name": "a", "name": "b"}}"#;
    assert!(
        error(json).contains("\"name\" is repeated"),
        "{}",
        error(json)
    );
}

#[test]
fn vmi_without_memory_is_refused() {
    let without = VMI_TEXT.replace(", memory: {guest: 1Gi}", "");
    assert!(one(&without).notes[0].contains("spec.domain.memory.guest is missing"));
    for place in ["requests", "limits"] {
        let resources = format!("resources: {{{place}: {{memory: 1Gi}}}}");
        let there = VMI_TEXT.replace("memory: {guest: 1Gi}", &resources);
        assert_eq!(one(&there).notes, [""; 0], "{place}");
    }
}

/// The VMIs of real clusters have no unknown field.
#[test]
fn kubevirts_own_vmis_have_only_known_fields() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/vmi-to-domain-xml");
    let mut seen = 0;
    for entry in std::fs::read_dir(corpus).unwrap().flatten() {
        let path = entry.path();
        if !path.to_string_lossy().ends_with(".vmi.json") {
            continue;
        }
        let value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(known_fields::unknown(&value, VMI), [], "{}", path.display());
        seen += 1;
    }
    assert!(seen > 100, "{seen}");
}
