//! VMIs and templates of VirtualMachines are read, with notes on defaults and unknown fields.

mod lists;
mod objects_beside_vms;
mod published_manifests;
mod refused_manifests;

use std::path::Path;

use serde_json::{Value, json};

use super::*;
use super::{Cluster, Manifest, ManifestError, Manifests, Note, VMI, known_fields};

fn cluster() -> Cluster {
    Cluster {
        architecture: "amd64".to_owned(),
        binds_claims: true,
        ..Cluster::default()
    }
}

fn manifests(text: &str) -> Manifests {
    super::read(text.as_bytes(), &cluster()).unwrap()
}

fn read(bytes: &[u8]) -> Result<Vec<Manifest>, ManifestError> {
    super::read(bytes, &cluster()).map(|manifests| manifests.all)
}

fn only_manifest(text: &str) -> Manifest {
    let mut manifests = read(text.as_bytes()).unwrap();
    assert_eq!(manifests.len(), 1, "{text}");
    manifests.remove(0)
}

/// The texts of the notes, in the order of their importance.
fn notes(manifest: &Manifest) -> Vec<String> {
    let mut notes: Vec<&Note> = manifest.notes.iter().collect();
    notes.sort_by_key(|note| note.importance);
    notes.into_iter().map(|note| note.text.clone()).collect()
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
    let manifest = only_manifest(VMI_TEXT);
    assert_eq!(notes(&manifest), [""; 0]);
    assert_eq!(manifest.vmi.domain_name(), "ns_web");
    let json = "{ \"metadata\": {\"name\": \"web\", \"namespace\": \"ns\"}, \"spec\": {\"domain\": {\"memory\": {\"guest\": \"1Gi\"}}} }\n";
    assert_eq!(only_manifest(json).vmi.raw_json(), json);
}

#[test]
fn template_of_a_virtual_machine_is_used_with_a_note() {
    let manifest = only_manifest(VM_TEXT);
    assert_eq!(manifest.vmi.domain_name(), "ns_web");
    assert_eq!(
        (manifest.vmi.annotation("a"), manifest.vmi.uid()),
        (Some("b"), "")
    );
    assert_eq!(
        manifest
            .vmi
            .spec
            .domain
            .memory
            .as_ref()
            .and_then(|m| m.guest)
            .map(|_| ()),
        Some(())
    );
    let [note] = &notes(&manifest)[..] else {
        panic!("{:?}", manifest.notes)
    };
    assert!(
        note.contains("this is a VirtualMachine") && note.contains("spec.template"),
        "{note}"
    );
    assert!(!note.contains("instance type"), "{note}");
    let vmi: Value = serde_json::from_str(manifest.vmi.raw_json()).unwrap();
    let owner = &vmi["metadata"]["ownerReferences"][0];
    assert_eq!(
        [&owner["kind"], &owner["name"], &owner["uid"]],
        ["VirtualMachine", "web", "u"]
    );

    assert_eq!(
        only_manifest(&VM_TEXT.replace(", namespace: ns", ""))
            .vmi
            .namespace(),
        "default"
    );
    let misspelt = VM_TEXT.replace("memory:", "memroy:");
    let notes = notes(&only_manifest(&misspelt));
    assert!(
        notes[0].contains("spec.template.spec.domain.memroy") && notes[0].contains("is it memory?"),
        "{notes:?}"
    );
    assert!(notes[1].contains("memory.guest is missing"), "{notes:?}");
}

/// The shape that `virtctl create vm` prints.
#[test]
fn defaults_of_kubevirt_are_set_and_noted() {
    let created = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {creationTimestamp: null, name: web}\n\
        spec:\n  dataVolumeTemplates: []\n  runStrategy: Always\n  template:\n    metadata: {creationTimestamp: null}\n    \
        spec:\n      domain:\n        devices: {disks: [{name: root, bootOrder: 1}]}\n        memory: {guest: 512Mi}\n        \
        resources: {limits: {cpu: 4}}\n      terminationGracePeriodSeconds: 180\n      volumes:\n      \
        - {name: root, containerDisk: {image: a}}\n      - {name: cloudinitdisk, cloudInitNoCloud: {userData: b}}\nstatus: {}\n";
    let manifest = only_manifest(created);
    let vmi: Value = serde_json::from_str(manifest.vmi.raw_json()).unwrap();
    assert_eq!(
        vmi["spec"]["domain"]["devices"]["disks"],
        json!([
            {"name": "root", "bootOrder": 1, "disk": {"bus": "sata"}},
            {"name": "cloudinitdisk", "disk": {"bus": "sata"}},
        ])
    );
    assert_eq!(vmi["spec"]["domain"]["cpu"]["sockets"], 4);
    assert_eq!(vmi["spec"]["networks"][0]["name"], "default");
    let note = "this is a VirtualMachine: its spec.template is used, with the defaults of a cluster (disks of volumes, \
        the network interface, CPU sockets, disk targets, disk buses)";
    assert_eq!(notes(&manifest), [note]);
}

/// The VMI has the metadata of the template alone. Labels such as `app` are for selectors, and most VMs have some.
#[test]
fn annotations_that_are_not_in_the_template_are_noted_once() {
    let own = "annotations: {a: other, smbios.vm.kubevirt.io/baseBoardManufacturer: ACME, \
        kubectl.kubernetes.io/last-applied-configuration: '{}', kubevirt.io/latest-observed-api-version: v1}, \
        labels: {app: web, example.com/usb: on-board, app.kubernetes.io/name: web, name.os.template.kubevirt.io/fedora: x}";
    let text = VM_TEXT.replace("uid: u", &format!("uid: u, {own}"));
    let all = notes(&only_manifest(&text));
    let note = "metadata.annotations of the VirtualMachine are not those of its VMI, and hooks do not see them: \
        smbios.vm.kubevirt.io/baseBoardManufacturer; nor its metadata.labels: example.com/usb; those for hooks belong in \
        spec.template.metadata";
    assert_eq!(all[0], note);
    assert_eq!(all.len(), 2, "{all:?}");
    let common = VM_TEXT.replace("uid: u", "uid: u, labels: {app: web, tier: front}");
    assert_eq!(notes(&only_manifest(&common)).len(), 1);
}

#[test]
fn a_vmi_gets_the_defaults_unless_it_is_of_a_cluster_or_an_extract() {
    let without_status = VMI_TEXT.replace("status: {phase: Running}", "status: {}");
    let manifest = only_manifest(&without_status);
    let note = "this VMI has no status, and gets KubeVirt's defaults: the network interface";
    assert_eq!(notes(&manifest), [note]);
    assert!(manifest.vmi.raw_json().contains("\"bridge\""));
    let extract = without_status.replace("kind: VirtualMachineInstance\n", "");
    for text in [VMI_TEXT, &extract] {
        let manifest = only_manifest(text);
        assert_eq!(notes(&manifest), [""; 0]);
        assert!(!manifest.vmi.raw_json().contains("\"bridge\""));
    }
}

#[test]
fn vmi_without_a_namespace_is_in_default() {
    for text in [
        VMI_TEXT.replace(", namespace: ns", ""),
        VMI_TEXT.replace("namespace: ns", "namespace: ''"),
        "{\"metadata\": {\"name\": \"web\"}, \"spec\": {\"domain\": {\"memory\": {\"guest\": \"1Gi\"}}}}".to_owned(),
    ] {
        let manifest = only_manifest(&text);
        assert_eq!(manifest.vmi.domain_name(), "default_web", "{text}");
        assert!(manifest.vmi.raw_json().contains("\"default\""));
        let [note] = &notes(&manifest)[..] else {
            panic!("{:?}", manifest.notes)
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
    let all = notes(&only_manifest(&text)).join("\n");
    for part in [
        "spec.runStrtegy is unknown to KubeVirt 1.9: is it runStrategy?",
        "spec.dataVolumTemplates is unknown to KubeVirt 1.9: is it dataVolumeTemplates?",
        "spec.template.metadta is unknown to KubeVirt 1.9: is it metadata?",
    ] {
        assert!(all.contains(part), "{all}");
    }
    let known = VM_TEXT.replace(
        "spec:\n  template",
        "status: {x: 1}\nspec:\n  running: true\n  instancetype: {inferFromVolume: a}\n  \
         preference: {name: fedora, kind: VirtualMachineClusterPreference}\n  \
         dataVolumeTemplates: [{metadata: {name: c}, spec: {any: d}}]\n  template",
    );
    let notes = notes(&only_manifest(&known));
    assert!(
        !notes.iter().any(|note| note.contains("unknown to")),
        "{notes:?}"
    );
}

#[test]
fn a_guest_without_a_byte_of_memory_is_noted() {
    for amount in ["0", "0.5"] {
        let notes = notes(&only_manifest(&VMI_TEXT.replace("1Gi", amount)));
        assert!(notes[0].contains("less than a byte"), "{notes:?}");
    }
}

#[test]
fn vmi_without_memory_is_noted() {
    let without = VMI_TEXT.replace(", memory: {guest: 1Gi}", "");
    assert!(notes(&only_manifest(&without))[0].contains("spec.domain.memory.guest is missing"));
    for place in ["requests", "limits"] {
        let resources = format!("resources: {{{place}: {{memory: 1Gi}}}}");
        let vmi_with_resources = VMI_TEXT.replace("memory: {guest: 1Gi}", &resources);
        assert_eq!(
            notes(&only_manifest(&vmi_with_resources)),
            [""; 0],
            "{place}"
        );
    }
}

/// A hook reads the VMI that a cluster has.
#[test]
fn a_vmi_is_in_the_form_in_which_the_api_server_stores_it() {
    let text = VM_TEXT.replace(
        "memory: {guest: 1Gi}",
        "memory: {guest: 1.5Gi, pages: 1}, clock: null",
    );
    let vmi: Value = serde_json::from_str(only_manifest(&text).vmi.raw_json()).unwrap();
    let domain = &vmi["spec"]["domain"];
    assert_eq!(
        domain["memory"],
        json!({"guest": "1536Mi", "maxGuest": "6Gi"})
    );
    assert_eq!(domain["cpu"]["model"], "host-model");
    assert_eq!(vmi["spec"]["architecture"], "amd64");
    assert!(domain.get("clock").is_none());
    let annotations = &vmi["metadata"]["annotations"];
    assert_eq!(
        annotations,
        &json!({"a": "b", "kubevirt.io/pci-topology-version": "v3"})
    );
}

/// The VMIs of real clusters have no unknown field.
#[test]
fn vmis_of_the_corpus_have_only_known_fields() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/vmi-to-domain-xml");
    let mut vmi_count = 0;
    for entry in std::fs::read_dir(corpus).unwrap().flatten() {
        let path = entry.path();
        if !path.to_string_lossy().ends_with(".vmi.json") {
            continue;
        }
        let value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(known_fields::unknown(&value, VMI), [], "{}", path.display());
        vmi_count += 1;
    }
    assert!(vmi_count > 100, "{vmi_count}");
}

#[test]
fn a_number_without_quotes_is_named_with_its_place() {
    let annotated =
        |usb: Value| json!({"metadata": {"annotations": {"usb": usb}, "labels": {"a": "1"}}});
    assert!(refuse_unquoted(&annotated("1234".into()), "metadata").is_ok());
    let error = refuse_unquoted(&annotated(1234.into()), "metadata")
        .err()
        .map(|error| error.to_string());
    let expected =
        "metadata.annotations: usb is 1234, which YAML does not read as text: put it in quotes";
    assert_eq!(error.as_deref(), Some(expected));
}
