//! Parsing of VMIs: invalid VMIs are errors that name the field, and unknown fields, nulls and YAML are accepted.

#![allow(clippy::unwrap_used)]

use kubevirt_api::strict_json_or_yaml::SyntaxError;
use kubevirt_api::vmi::{MAX_BYTES, Vmi, VmiError};
use serde_json::{Value, json};

fn parse_error(text: &str) -> String {
    Vmi::from_json(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn invalid_json_yaml_and_sizes_are_errors() {
    assert!(parse_error("not json").starts_with("the VMI is not valid JSON: "));
    assert!(parse_error("").starts_with("the VMI is not valid JSON: "));
    assert_eq!(
        parse_error("{}"),
        "the VMI's field metadata.name is missing"
    );
    assert!(parse_error("[]").contains("expected an object"));
    assert!(parse_error("7").contains("invalid type"));
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
fn error_of_a_wrong_type_names_the_field() {
    let text = r#"{"metadata": {"name": "vm"}, "spec": {"domain": {"cpu": {"cores": "two"}}}}"#;
    assert!(
        parse_error(text).starts_with("the VMI's field spec.domain.cpu.cores: "),
        "{}",
        parse_error(text)
    );
    let text = r#"{"metadata": {"name": "vm"}, "spec": {"domain": []}}"#;
    assert!(
        parse_error(text).starts_with("the VMI's field spec.domain: "),
        "{}",
        parse_error(text)
    );
    let text = r#"{"metadata": {"name": "vm"}, "spec": {"domain": {"memory": {"guest": "many"}}}}"#;
    assert!(
        parse_error(text).starts_with("the VMI's field spec.domain.memory.guest: "),
        "{}",
        parse_error(text)
    );
}

#[test]
fn names_with_path_traversal_are_errors() {
    for name in ["..", "../../etc", "a/b", "a\u{0}"] {
        let text = json!({"metadata": {"name": name}}).to_string();
        assert!(
            parse_error(&text).starts_with("the VMI's field metadata.name: "),
            "{name}"
        );
    }
    let text =
        json!({"metadata": {"name": "vm"}, "spec": {"volumes": [{"name": "../x"}]}}).to_string();
    assert!(parse_error(&text).starts_with("the VMI's field spec.volumes[0].name: "));
}

#[test]
fn unknown_fields_and_nulls_are_accepted() {
    let text = r#"{"metadata": {"name": "vm", "annotations": null, "x": 1}, "more": [],
        "spec": {"volumes": null, "domain": {"devices": {"disks": null, "future": {}}, "resources": null}}, "status": null}"#;
    let vmi = Vmi::from_json(text.as_bytes()).unwrap();
    assert_eq!(vmi.raw_json(), text);
    assert_eq!(vmi.grace_period_seconds(), 30);
    assert!(vmi.spec.volumes.is_empty() && vmi.spec.domain.devices.disks.is_empty());
}

#[test]
fn yaml_and_its_json_give_the_same_vmi() {
    let yaml =
        "metadata:\n  name: vm\n  namespace: ns\nspec:\n  domain:\n    memory: {guest: 64Mi}\n";
    let vmi = Vmi::from_yaml_or_json(yaml.as_bytes()).unwrap();
    assert_eq!(vmi.domain_name(), "ns_vm");
    let repeated = Vmi::from_yaml_or_json(vmi.raw_json().as_bytes()).unwrap();
    let memory = vmi
        .spec
        .domain
        .memory
        .as_ref()
        .and_then(|memory| memory.guest);
    assert_eq!(memory.unwrap().value(), 64 << 20);
    assert_eq!(repeated.value(), vmi.value());
}

#[test]
fn error_for_a_manifest_of_another_kind_contains_a_remedy() {
    let manifest = |kind: Value| json!({"kind": kind, "metadata": {"name": "vm"}}).to_string();
    for (kind, remedy) in [
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
            let start = format!("this is a {kind}, not a VirtualMachineInstance: ");
            assert!(
                error.starts_with(&start) && error.contains(remedy),
                "{error}"
            );
        }
        // The kind in JSON of virt-handler is not checked: it is missing, or always the same.
        assert!(Vmi::from_json(json.as_bytes()).is_ok(), "{kind}");
    }
    for kind in [json!("VirtualMachineInstance"), json!(""), Value::Null] {
        assert!(Vmi::from_yaml_or_json(manifest(kind).as_bytes()).is_ok());
    }
    let number = Vmi::from_yaml_or_json(manifest(json!(7)).as_bytes());
    assert!(matches!(number, Err(VmiError::Kind { kind }) if kind == "7"));
    let without_kind = Vmi::from_yaml_or_json(b"metadata: {name: vm}");
    assert!(without_kind.is_ok(), "{without_kind:?}");
}
