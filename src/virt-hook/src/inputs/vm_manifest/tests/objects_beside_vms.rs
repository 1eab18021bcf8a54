//! Files as people keep them: VMs beside other objects, and objects that carry a VM.

use serde_json::{Value, json};

use super::{VM_TEXT, error, manifests, notes, only_manifest};

const CLAIMS: &str = "kind: PersistentVolumeClaim\nmetadata: {name: data, namespace: ns}\n\
    spec: {volumeMode: Block, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1.5Gi}}}\n---\n\
    kind: DataVolume\nmetadata: {name: root, namespace: ns}\nspec: {storage: {resources: {requests: {storage: 10Gi}}}}\n---\n";

fn json_of(text: &str) -> Value {
    serde_json::from_str(only_manifest(text).vmi.raw_json()).unwrap()
}

#[test]
fn other_objects_are_left_out_with_one_note() {
    let others =
        "kind: Secret\nmetadata: {name: seed}\n---\nkind: Service\nmetadata: {name: ssh}\n---\n";
    let text = format!("{others}{VM_TEXT}");
    assert_eq!(only_manifest(&text).vmi.domain_name(), "ns_web");
    let note = manifests(&text).left_out.unwrap().text;
    let expected =
        "Secret seed (document 1) and Service ssh (document 2) are not VMs and are left out";
    assert_eq!(note, expected);
    assert!(manifests(VM_TEXT).left_out.is_none());
    let many = "kind: Secret\nmetadata: {name: a}\n---\n".repeat(12);
    let note = manifests(&format!("{many}{VM_TEXT}"))
        .left_out
        .unwrap()
        .text;
    assert!(
        note.ends_with("Secret a (document 10) and 2 more are not VMs and are left out"),
        "{note}"
    );
    let only_others = error(others);
    assert!(
        only_others.starts_with("document 1: this is a Secret, neither"),
        "{only_others}"
    );
}

#[test]
fn volumes_have_the_modes_and_sizes_of_the_claims_beside_the_vm() {
    let volumes = "volumes: [{name: d, persistentVolumeClaim: {claimName: data}}, {name: r, dataVolume: {name: root}}, \
        {name: h, persistentVolumeClaim: {claimName: data, hotpluggable: true}}, {name: t, dataVolume: {name: own}}, \
        {name: e, emptyDisk: {capacity: 1Gi}}]";
    let templates =
        "dataVolumeTemplates: [{metadata: {name: own}, spec: {pvc: {volumeMode: Block}}}]";
    let vm = VM_TEXT
        .replace("spec: {domain", &format!("spec: {{{volumes}, domain"))
        .replace("  template:", &format!("  {templates}\n  template:"));
    let text = format!("{CLAIMS}{vm}");
    let manifest = only_manifest(&text);
    assert_eq!(manifest.block_volumes, ["d", "t"]);
    let size = |size: &str| json!({"storage": size});
    assert_eq!(
        json_of(&text)["status"]["volumeStatus"],
        json!([
            {"name": "d", "target": "", "persistentVolumeClaimInfo": {"claimName": "data", "accessModes": ["ReadWriteOnce"],
                "volumeMode": "Block", "capacity": size("1536Mi"), "requests": size("1536Mi")}},
            {"name": "r", "target": "", "persistentVolumeClaimInfo": {"claimName": "root", "accessModes": [],
                "volumeMode": "Filesystem", "capacity": size("10Gi"), "requests": size("10Gi")}},
            {"name": "t", "target": "", "persistentVolumeClaimInfo": {"claimName": "own", "accessModes": [],
                "volumeMode": "Block"}},
            {"name": "e", "target": ""},
        ])
    );
    let note = manifests(&text).left_out.unwrap().text;
    let expected = "PersistentVolumeClaim data (document 1) and DataVolume root (document 2) are used for the VM";
    assert_eq!(note, expected);
    let elsewhere = text.replace("name: data, namespace: ns", "name: data, namespace: other");
    assert_eq!(only_manifest(&elsewhere).block_volumes, ["t"]);
    let without_claims = json_of(&vm.replace("own}, spec", "another}, spec"));
    assert_eq!(without_claims["status"], json!({"runtimeUser": 107}));
}

#[test]
fn a_generated_name_gets_the_same_characters_in_every_run() {
    for text in [VM_TEXT, super::VMI_TEXT] {
        let text = text
            .replace("name: web", "generateName: web-")
            .replace("status: {phase: Running}\n", "");
        let manifest = only_manifest(&text);
        assert_eq!(manifest.vmi.domain_name(), "ns_web-xxxxx");
        let note = "the cluster completes metadata.generateName web- with random characters: the name is web-xxxxx here";
        assert!(
            notes(&manifest).iter().any(|text| text == note),
            "{manifest:?}"
        );
    }
}

#[test]
fn the_first_vm_of_a_pool_is_used() {
    let pool = "apiVersion: pool.kubevirt.io/v1beta1\nkind: VirtualMachinePool\nmetadata: {name: web, namespace: ns}\n\
        spec:\n  replicas: 3\n  virtualMachineTemplate:\n    metadata: {labels: {a: b}}\n    spec:\n      \
        dataVolumeTemplates: [{metadata: {name: root}, spec: {pvc: {volumeMode: Block}}}]\n      template:\n        spec: \
        {domain: {devices: {}, memory: {guest: 1Gi}}, volumes: [{name: r, dataVolume: {name: root}}]}\n";
    let manifest = only_manifest(pool);
    assert_eq!(manifest.vmi.domain_name(), "ns_web-0");
    assert_eq!(manifest.block_volumes, ["r"]);
    assert_eq!(
        json_of(pool)["spec"]["volumes"][0]["dataVolume"]["name"],
        "root-0"
    );
    let all = notes(&manifest);
    let note = "it is one of the 3 VMs of VirtualMachinePool web";
    assert!(all.iter().any(|text| text == note), "{all:?}");
    let without = error("kind: VirtualMachinePool\nmetadata: {name: a}\nspec: {}\n");
    assert_eq!(
        without,
        "the VirtualMachinePool's field spec.virtualMachineTemplate is missing"
    );
}

#[test]
fn a_vmi_of_a_replica_set_is_used() {
    let set = "kind: VirtualMachineInstanceReplicaSet\nmetadata: {name: web, namespace: ns}\nspec:\n  replicas: 2\n  \
        template:\n    metadata: {labels: {a: b}}\n    spec: {domain: {devices: {}, memory: {guest: 1Gi}}}\n";
    let manifest = only_manifest(set);
    assert_eq!(manifest.vmi.domain_name(), "ns_webxxxxx");
    assert_eq!(json_of(set)["spec"]["domain"]["cpu"]["model"], "host-model");
    let all = notes(&manifest);
    assert!(
        all.iter()
            .any(|note| note.contains("one of the 2 VMIs of VirtualMachineInstanceReplicaSet web")),
        "{all:?}"
    );
}

#[test]
fn the_vm_of_a_template_has_the_default_values_of_its_parameters() {
    let template = "apiVersion: template.openshift.io/v1\nkind: Template\nmetadata: {name: fedora}\nobjects:\n\
        - kind: Secret\n  metadata: {name: seed}\n\
        - kind: VirtualMachine\n  metadata: {name: '${NAME}'}\n  spec:\n    template:\n      spec: {domain: {devices: {}, \
        memory: {guest: '${MEMORY}'}, cpu: {cores: '${{CORES}}'}}}\n\
        parameters: [{name: NAME, generate: expression}, {name: MEMORY, value: 2Gi}, {name: CORES, value: '2'}]\n";
    let manifest = only_manifest(template);
    assert_eq!(manifest.vmi.domain_name(), "default_name");
    let vmi = json_of(template);
    assert_eq!(vmi["spec"]["domain"]["cpu"]["cores"], 2);
    assert_eq!(vmi["spec"]["domain"]["memory"]["guest"], "2Gi");
    let all = notes(&manifest);
    assert!(
        all.iter()
            .any(|note| note.contains("the VM of the Template fedora")),
        "{all:?}"
    );
    let left_out = manifests(template).left_out.unwrap().text;
    assert_eq!(left_out, "Secret seed (item 1) is not a VM and is left out");
}

/// They would change the VMI of a cluster, where a note says so.
#[test]
fn a_preset_that_selects_the_vm_is_named_as_not_applied() {
    let preset = |selector: &str| {
        format!(
            "kind: VirtualMachineInstancePreset\nmetadata: {{name: small, namespace: ns}}\nspec: {{domain: {{cpu: {{cores: 4}}}}, \
             selector: {selector}}}\n---\n"
        )
    };
    let labelled = VM_TEXT.replace(
        "  template:\n    metadata: {",
        "  template:\n    metadata: {labels: {size: small}, ",
    );
    assert_ne!(labelled, VM_TEXT);
    let excluded = labelled.replace(
        "annotations: {",
        "annotations: {virtualmachineinstancepresets.admission.kubevirt.io/exclude: 'true', ",
    );
    assert_ne!(excluded, labelled);
    for (selector, vm, is_told) in [
        ("{matchLabels: {size: small}}", labelled.as_str(), true),
        ("{}", VM_TEXT, true),
        ("{matchLabels: {size: small}}", VM_TEXT, false),
        ("{matchLabels: {size: large}}", &labelled, false),
        ("{matchLabels: {size: small}}", &excluded, false),
    ] {
        let text = format!("{}{vm}", preset(selector));
        let manifest = only_manifest(&text);
        let note = "the VirtualMachineInstancePreset small is not applied: ";
        let all = notes(&manifest);
        let tells = all.iter().any(|text| text.starts_with(note));
        assert_eq!(tells, is_told, "{selector} {vm}: {all:?}");
    }
}
