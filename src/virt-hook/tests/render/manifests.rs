//! `render` of VirtualMachines, lists, and manifests with mistakes.

use std::fs;

use serde_json::{Value, json};

use super::{corpus, failure, render, text, virt_hook, warnings, xml};

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
            "virt-hook: note: standard input: this is a VirtualMachine: its spec.template"
        ) && stderr.lines().count() == 2,
        "{stderr}"
    );
    let json: Value =
        serde_json::from_str(&xml(&render(&["--json"], VIRTUAL_MACHINE.as_bytes()))).unwrap();
    assert_eq!(json["notes"].as_array().unwrap().len(), 2, "{json}");
    assert!(json.get("warnings").is_none(), "{json}");
    let quiet = render(&["--quiet"], VIRTUAL_MACHINE.as_bytes());
    assert_eq!((xml(&quiet), warnings(&quiet)), (actual, String::new()));
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
    let defaults_note =
        "(the network interface, input devices, Hyper-V features that others need, disk buses)";
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

/// How files with several objects, and objects that carry a VM, are used: the arguments, the name of the domain, and notes.
#[test]
fn files_are_used_as_people_keep_them() {
    let directory = corpus("../manifest-to-domain-xml/files");
    let rows: [(&str, &[&str], &str, &[&str]); 6] = [
        (
            "generate-name-vm",
            &[],
            "default_web-xxxxx",
            &["metadata.generateName web- with random characters"],
        ),
        (
            "list-vm-and-service",
            &[],
            "default_web",
            &["Service web-ssh (item 1) is not a VM and is left out"],
        ),
        (
            "pool",
            &[],
            "default_web-0",
            &["it is one of the 3 VMs of VirtualMachinePool web"],
        ),
        ("two-vms", &["--vmi-name", "db"], "default_db", &[]),
        (
            "vm-and-secret",
            &[],
            "default_web",
            &["Secret web-seed (document 1) is not a VM and is left out"],
        ),
        (
            "vm-pvc-and-configmap",
            &[],
            "prod_db",
            &[
                "ConfigMap db-conf (document 2) is not a VM and is left out; PersistentVolumeClaim db-data (document 1) is used",
            ],
        ),
    ];
    for (name, more, domain, notes) in rows {
        let path = directory.join(format!("{name}.yaml"));
        let output = virt_hook(&[&["render", "--vmi", text(&path)], more].concat(), b"");
        let actual = xml(&output);
        assert!(
            actual.contains(&format!("<name>{domain}</name>")),
            "{name}: {actual}"
        );
        let log = warnings(&output);
        for note in notes {
            assert!(log.contains(note), "{name}: {log}");
        }
        assert_eq!(
            log.contains("left out"),
            notes.concat().contains("left out"),
            "{name}: {log}"
        );
    }
    let two = directory.join("two-vms.yaml");
    let (code, stderr) = failure(&virt_hook(&["render", "--vmi", text(&two)], b""));
    assert_eq!(code, 2);
    assert!(
        stderr.contains("default/web, default/db: choose one with --vmi-name"),
        "{stderr}"
    );
}

/// With a file of host facts, the pod is as the file says.
#[test]
fn a_claim_beside_the_vm_makes_its_volume_a_block_device() {
    let path = corpus("../manifest-to-domain-xml/files/vm-pvc-and-configmap.yaml");
    let disk = |more: &[&str]| {
        let output = virt_hook(&[&["render", "--vmi", text(&path)], more].concat(), b"");
        (
            xml(&output).contains("dev=\"/dev/datadisk\""),
            warnings(&output),
        )
    };
    assert!(disk(&[]).0);
    let temp_dir = tempfile::tempdir().unwrap();
    for (facts, is_block) in [("{}", false), ("{\"blockVolumes\": [\"datadisk\"]}", true)] {
        let host = temp_dir.path().join("host.json");
        fs::write(&host, facts).unwrap();
        let (block, log) = disk(&["--host", text(&host)]);
        assert_eq!(block, is_block, "{log}");
        let warning = "the claims of the volumes datadisk have the mode Block, but blockVolumes of";
        assert_eq!(log.contains(warning), !is_block, "{log}");
    }
}

/// A cluster adds these only with what the status says.
#[test]
fn devices_that_are_not_shown_are_named() {
    let machine = "kind: VirtualMachine\nmetadata: {name: web, namespace: ns}\nspec:\n  template:\n    spec:\n      \
        domain: {memory: {guest: 64Mi}, devices: {autoattachVSOCK: true, interfaces: [{name: fast, sriov: {}}, \
        {name: odd, binding: {name: plugin}}], disks: [{name: root}, {name: later}]}}\n      \
        networks: [{name: fast, multus: {networkName: a}}, {name: odd, multus: {networkName: b}}]\n      \
        volumes: [{name: root, dataVolume: {name: root}}, {name: later, persistentVolumeClaim: {claimName: c, hotpluggable: true}}]\n  \
        dataVolumeTemplates: [{metadata: {name: root}, spec: {pvc: {}}}]\n";
    let output = virt_hook(&["render", "--vmi", "-"], machine.as_bytes());
    xml(&output);
    let log = warnings(&output);
    for part in [
        "warning: standard input: the SR-IOV interfaces fast are not shown",
        "the interfaces odd are not shown",
        "the vsock device is not shown",
        "the disks later are not shown",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

/// GPUs, host devices and dedicated CPUs are of a node that this machine is not.
#[test]
fn what_only_a_node_knows_is_made_up_with_a_warning() {
    let machine = "kind: VirtualMachine\nmetadata: {name: web, namespace: ns}\nspec:\n  template:\n    spec:\n      \
        domain: {cpu: {sockets: 64, dedicatedCpuPlacement: true}, memory: {guest: 64Mi}, devices: {gpus: [{name: gpu, deviceName: \
        nvidia.com/A100}], hostDevices: [{name: nic, deviceName: intel.com/nic}]}}\n";
    let output = virt_hook(&["render", "--vmi", "-"], machine.as_bytes());
    let actual = xml(&output);
    assert_eq!(actual.matches("<hostdev ").count(), 2, "{actual}");
    assert_eq!(actual.matches("<vcpupin ").count(), 64, "{actual}");
    assert!(actual.contains("<hint-dedicated"), "{actual}");
    let log = warnings(&output);
    for part in [
        "(devicePlugins): PCI_RESOURCE_INTEL_COM_NIC 0000:65:00.0, PCI_RESOURCE_NVIDIA_COM_A100 0000:65:01.0",
        "give others with --host, for which `virt-hook host-facts` writes a template",
        "the dedicated CPUs are those of a made-up NUMA node",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

#[test]
fn instance_types_of_a_file_are_applied_and_conflicts_are_refused() {
    let temp_dir = tempfile::tempdir().unwrap();
    let types = temp_dir.path().join("types.yaml");
    fs::write(
        &types,
        "kind: VirtualMachineClusterInstancetype\nmetadata: {name: own}\nspec: {cpu: {guest: 3}, memory: {guest: 96Mi}}\n",
    )
    .unwrap();
    let machine = |cores: &str| {
        format!(
            "kind: VirtualMachine\nmetadata: {{name: web, namespace: ns}}\nspec:\n  instancetype: {{name: own}}\n  template:\n    \
             spec: {{domain: {{devices: {{}}{cores}}}}}\n"
        )
    };
    let arguments = ["render", "--vmi", "-", "--instancetypes", text(&types)];
    let actual = xml(&virt_hook(&arguments, machine("").as_bytes()));
    assert!(
        actual.contains(">100663296</memory>") && actual.matches("enabled=\"yes\"").count() == 3,
        "{actual}"
    );
    let (code, stderr) = failure(&virt_hook(
        &arguments,
        machine(", cpu: {cores: 2}").as_bytes(),
    ));
    assert_eq!(code, 1);
    assert!(
        stderr.contains("in spec.template.spec.domain.cpu.cores: leave"),
        "{stderr}"
    );
    let (code, stderr) = failure(&virt_hook(
        &[
            "render",
            "--vmi",
            "-",
            "--instancetypes",
            "/nonexistent.yaml",
        ],
        machine("").as_bytes(),
    ));
    assert_eq!(code, 2);
    assert!(stderr.contains("/nonexistent.yaml"), "{stderr}");
}

/// Options before the VMI's own architecture, and that before the machine's.
#[test]
fn domain_is_that_of_a_node_of_the_architecture() {
    let machine = |own: &str| {
        format!(
            "kind: VirtualMachine\nmetadata: {{name: web, namespace: ns}}\nspec: {{template: {{spec: {{{own}domain: {{devices: \
             {{disks: [{{name: root}}]}}, memory: {{guest: 64Mi}}}}, volumes: [{{name: root, containerDisk: {{image: i}}}}]}}}}}}\n"
        )
    };
    let arm64 = [
        "arch=\"aarch64\" machine=\"virt\"",
        "/usr/share/AAVMF/AAVMF_CODE.fd",
        "<cpu mode=\"host-passthrough\">",
        "<target bus=\"virtio\" dev=\"vda\">",
    ];
    let s390x = [
        "arch=\"s390x\" machine=\"s390-ccw-virtio\"",
        "type=\"scsi\" index=\"0\" model=\"virtio-scsi\"",
        "<cpu mode=\"host-model\">",
        "<input type=\"keyboard\" bus=\"virtio\">",
    ];
    for (own, arguments, parts) in [
        ("", &["--arch", "arm64"][..], arm64),
        ("architecture: arm64, ", &[], arm64),
        ("", &["--arch", "s390x"], s390x),
        ("architecture: s390x, ", &["--arch", "s390x"], s390x),
    ] {
        let output = virt_hook(
            &[&["render", "--vmi", "-"], arguments].concat(),
            machine(own).as_bytes(),
        );
        let xml = xml(&output);
        for part in parts {
            assert!(xml.contains(part), "{own}{arguments:?}: {part}: {xml}");
        }
        let facts = virt_hook(
            &[&["host-facts", "-"], arguments].concat(),
            machine(own).as_bytes(),
        );
        let facts: Value = serde_json::from_slice(&facts.stdout).unwrap();
        let architecture = if parts == arm64 { "arm64" } else { "s390x" };
        assert_eq!(facts["architecture"], architecture, "{own}{arguments:?}");
    }
    let refused = virt_hook(
        &["render", "--vmi", "-", "--arch", "amd64"],
        machine("architecture: arm64, ").as_bytes(),
    );
    let (code, line) = failure(&refused);
    assert_eq!(code, 1);
    assert!(
        line.contains("spec.architecture is arm64, and the node is amd64"),
        "{line}"
    );
}

/// What `host-facts` writes is complete, and `render` takes it.
#[test]
fn host_facts_are_a_template_for_render() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (vmi, host) = (
        temp_dir.path().join("vm.yaml"),
        temp_dir.path().join("host.json"),
    );
    let machine = "kind: VirtualMachine\nmetadata: {name: web, namespace: ns}\nspec:\n  template:\n    spec:\n      \
        domain: {memory: {guest: 64Mi}, devices: {gpus: [{name: gpu, deviceName: nvidia.com/A100}], \
        interfaces: [{name: fast, sriov: {}}], disks: [{name: root}]}}\n      \
        networks: [{name: fast, multus: {networkName: a}}]\n      \
        volumes: [{name: root, dataVolume: {name: root}}]\n  \
        dataVolumeTemplates: [{metadata: {name: root}, spec: {pvc: {volumeMode: Block}}}]\n";
    fs::write(&vmi, machine).unwrap();
    let facts = xml(&virt_hook(&["host-facts", text(&vmi)], b""));
    let json: Value = serde_json::from_str(&facts).unwrap();
    assert_eq!(
        json["devicePlugins"],
        json!({"PCI_RESOURCE_NVIDIA_COM_A100": "0000:65:00.0"})
    );
    let network =
        json!([{"network": "fast", "deviceInfo": {"pci": {"pci-address": "0000:66:00.0"}}}]);
    assert_eq!(json["networkInfo"]["interfaces"], network);
    assert_eq!(json["blockVolumes"], json!(["root"]));
    assert!(json["firmwareFiles"].as_array().unwrap().len() > 5);
    fs::write(&host, facts.replace("0000:65:00.0", "0000:17:00.0")).unwrap();
    let output = virt_hook(&["render", "--vmi", text(&vmi), "--host", text(&host)], b"");
    let actual = xml(&output);
    assert!(
        actual.contains("bus=\"0x17\"") && actual.contains("dev=\"/dev/root\""),
        "{actual}"
    );
    let log = warnings(&output);
    assert!(
        !log.contains("made up") && !log.contains("blockVolumes"),
        "{log}"
    );
    let (code, stderr) = failure(&virt_hook(&["host-facts", "/nonexistent.yaml"], b""));
    assert_eq!(code, 2);
    assert!(stderr.contains("/nonexistent.yaml"), "{stderr}");
}
