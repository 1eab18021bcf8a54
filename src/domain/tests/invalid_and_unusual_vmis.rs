//! Invalid VMIs give errors that name the field; unusual ones are read.

#![allow(clippy::unwrap_used)]

use domain::convert::convert;
use domain::host_facts::HostFacts;
use kubevirt_api::strict_json_or_yaml::SyntaxError;
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::{MAX_BYTES, Vmi, VmiError};
use serde_json::{Value, json};

fn vmi(spec: Value) -> Vmi {
    let vmi = json!({"metadata": {"name": "vm", "namespace": "ns", "uid": "u"}, "spec": spec});
    Vmi::from_json(vmi.to_string().as_bytes()).unwrap()
}

fn refusal(spec: Value) -> String {
    convert(&vmi(spec), &Options::default(), &HostFacts::default())
        .unwrap_err()
        .to_string()
}

fn read_error(text: &str) -> String {
    Vmi::from_json(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn invalid_vmi_is_refused() {
    assert!(read_error("not json").starts_with("the VMI is not valid JSON: "));
    assert!(read_error("").starts_with("the VMI is not valid JSON: "));
    assert_eq!(read_error("{}"), "the VMI's field metadata.name is missing");
    assert!(read_error("[]").contains("expected an object"));
    assert!(read_error("7").contains("invalid type"));
    assert!(matches!(
        Vmi::from_json(&[0xff, 0xfe]),
        Err(VmiError::Syntax(_))
    ));
    assert!(matches!(
        Vmi::from_json(&vec![b' '; MAX_BYTES + 1]),
        Err(VmiError::TooLarge { .. })
    ));
    assert!(matches!(
        Vmi::from_yaml_or_json(b"a: [b"),
        Err(VmiError::Syntax(SyntaxError { format: "YAML", .. }))
    ));
}

#[test]
fn wrong_types_are_reported_with_their_field() {
    let text = r#"{"metadata": {"name": "vm"}, "spec": {"domain": {"cpu": {"cores": "two"}}}}"#;
    assert!(
        read_error(text).starts_with("the VMI's field spec.domain.cpu.cores: "),
        "{}",
        read_error(text)
    );
    let text = r#"{"metadata": {"name": "vm"}, "spec": {"domain": []}}"#;
    assert!(
        read_error(text).starts_with("the VMI's field spec.domain: "),
        "{}",
        read_error(text)
    );
    let text = r#"{"metadata": {"name": "vm"}, "spec": {"domain": {"memory": {"guest": "many"}}}}"#;
    assert!(
        read_error(text).starts_with("the VMI's field spec.domain.memory.guest: "),
        "{}",
        read_error(text)
    );
}

#[test]
fn names_that_leave_their_directory_are_refused() {
    for name in ["..", "../../etc", "a/b", "a\u{0}"] {
        let text = json!({"metadata": {"name": name}}).to_string();
        assert!(
            read_error(&text).starts_with("the VMI's field metadata.name: "),
            "{name}"
        );
    }
    let text =
        json!({"metadata": {"name": "vm"}, "spec": {"volumes": [{"name": "../x"}]}}).to_string();
    assert!(read_error(&text).starts_with("the VMI's field spec.volumes[0].name: "));
}

#[test]
fn unknown_fields_and_nulls_are_tolerated() {
    let text = r#"{"metadata": {"name": "vm", "annotations": null, "x": 1}, "more": [],
        "spec": {"volumes": null, "domain": {"devices": {"disks": null, "future": {}}, "resources": null}}, "status": null}"#;
    let vmi = Vmi::from_json(text.as_bytes()).unwrap();
    assert_eq!(vmi.raw_json(), text);
    assert_eq!(vmi.grace_period_seconds(), 30);
    assert!(convert(&vmi, &Options::default(), &HostFacts::default()).is_ok());
}

#[test]
fn yaml_is_read_like_json() {
    let yaml =
        "metadata:\n  name: vm\n  namespace: ns\nspec:\n  domain:\n    memory: {guest: 64Mi}\n";
    let vmi = Vmi::from_yaml_or_json(yaml.as_bytes()).unwrap();
    assert_eq!(vmi.domain_name(), "ns_vm");
    let repeated = Vmi::from_yaml_or_json(vmi.raw_json().as_bytes()).unwrap();
    let convert = |vmi| convert(vmi, &Options::default(), &HostFacts::default()).unwrap();
    assert_eq!(convert(&vmi).memory.value, 64 << 20);
    assert_eq!(convert(&vmi), convert(&repeated));
}

#[test]
fn manifests_of_other_kinds_are_refused_with_a_remedy() {
    let manifest = |kind: Value| json!({"kind": kind, "metadata": {"name": "vm"}}).to_string();
    for (kind, words) in [
        ("VirtualMachine", "spec.template"),
        (
            "VirtualMachinePool",
            "spec.virtualMachineTemplate.spec.template",
        ),
        ("List", "one of its items"),
        ("Pod", "kubectl get vmi NAME -o yaml"),
        ("virtualmachineinstance", "kubectl get vmi NAME -o yaml"),
    ] {
        let json = manifest(json!(kind));
        let yaml = format!("kind: {kind}\nmetadata: {{name: vm}}\n");
        for text in [&json, &yaml] {
            let error = Vmi::from_yaml_or_json(text.as_bytes()).unwrap_err();
            assert!(matches!(error, VmiError::Kind { .. }), "{error}");
            let error = error.to_string();
            let found = format!("this is a {kind}, not a VirtualMachineInstance: ");
            assert!(
                error.starts_with(&found) && error.contains(words),
                "{error}"
            );
        }
        // virt-handler's word is not doubted: what it sends has no kind, or always the same.
        assert!(Vmi::from_json(json.as_bytes()).is_ok(), "{kind}");
    }
    for kind in [json!("VirtualMachineInstance"), json!(""), Value::Null] {
        assert!(Vmi::from_yaml_or_json(manifest(kind).as_bytes()).is_ok());
    }
    let number = Vmi::from_yaml_or_json(manifest(json!(7)).as_bytes());
    assert!(matches!(number, Err(VmiError::Kind { kind }) if kind == "7"));
    let none = Vmi::from_yaml_or_json(b"metadata: {name: vm}");
    assert!(none.is_ok(), "{none:?}");
}

#[test]
fn invalid_disks_are_refused() {
    let disk = |disk: Value| json!({"domain": {"devices": {"disks": [disk]}}, "volumes": [{"name": "v", "emptyDisk": {}}]});
    assert_eq!(
        refusal(disk(json!({"name": "v", "disk": {"bus": "ide"}}))),
        "spec.domain.devices.disks[0].disk.bus is \"ide\"; it can be virtio, sata, scsi or usb"
    );
    assert_eq!(
        refusal(disk(json!({"name": "other", "disk": {"bus": "virtio"}}))),
        "no matching volume with name other found"
    );
    assert_eq!(
        refusal(disk(json!({"name": "v"}))),
        "spec.domain.devices.disks[0] is neither disk, lun nor cdrom"
    );
    assert!(
        refusal(disk(
            json!({"name": "v", "disk": {"bus": "virtio"}, "errorPolicy": "panic"})
        ))
        .contains("error policy panic not recognized")
    );
}

#[test]
fn other_architectures_are_refused() {
    assert_eq!(
        refusal(json!({"architecture": "s390x"})),
        "spec.architecture s390x on amd64 is not supported by this launcher yet"
    );
}

#[test]
fn absurd_amounts_are_refused() {
    let most = u32::MAX;
    assert!(
        refusal(json!({"domain": {"cpu": {"cores": most, "sockets": most, "threads": most}}}))
            .contains("virtual processors")
    );
    assert!(
        refusal(json!({"domain": {"cpu": {"maxSockets": most}}})).contains("virtual processors")
    );
    assert_eq!(
        refusal(json!({"domain": {"memory": {"guest": "-1Mi"}}})),
        "Memory size '-1Mi' must be greater than or equal to 0"
    );
    let pool = json!({"domain": {"ioThreadsPolicy": "supplementalPool", "ioThreads": {"supplementalPoolThreadCount": most}}});
    assert!(refusal(pool).contains("supplementalPoolThreadCount"));
}

#[test]
fn without_kvm_emulation_must_be_allowed() {
    let host = HostFacts {
        kvm_available: false,
        ..HostFacts::default()
    };
    let refusal = convert(&vmi(json!({})), &Options::default(), &host).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "kvm not present and emulation is not allowed"
    );
    let host = HostFacts {
        allow_emulation: true,
        ..host
    };
    assert_eq!(
        convert(&vmi(json!({})), &Options::default(), &host)
            .unwrap()
            .kind,
        "qemu"
    );
    assert_eq!(
        convert(&vmi(json!({})), &Options::default(), &HostFacts::default())
            .unwrap()
            .kind,
        "kvm"
    );
}
