//! Files and objects without a usable VMI.

use super::{VMI_TEXT, error, notes, only_manifest, read};

#[test]
fn a_vmi_of_another_api_is_refused() {
    let of = |version: &str| format!("apiVersion: {version}\n{VMI_TEXT}");
    let refused = error(&of("example.com/v1"));
    let reason = "this is a VirtualMachineInstance of example.com/v1, neither";
    assert!(refused.starts_with(reason), "{refused}");
    for version in ["kubevirt.io/v1", "kubevirt.io/v1alpha3"] {
        assert_eq!(notes(&only_manifest(&of(version))), [""; 0]);
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
        let refusal = read(text.as_bytes()).unwrap_err();
        assert!(refusal.to_string().contains(part), "{text}: {refusal}");
        assert!(!refusal.is_refusal(), "{text}");
        let wants = refusal
            .to_string()
            .contains("the manifest of a VirtualMachineInstance or");
        assert!(
            wants || text.starts_with("kind: VirtualMachine\n"),
            "{refusal}"
        );
    }
    let long = error(&"word ".repeat(100));
    assert!(long.contains("... (459 more bytes)"), "{long}");
    for bytes in [&[0xff, 0xfe, b'a', 0][..], b"a: \xff"] {
        let refusal = read(bytes).unwrap_err().to_string();
        assert!(refusal.starts_with("it is "), "{refusal}");
    }
    let nameless = read(b"spec: {domain: {}}\n").unwrap_err();
    assert!(nameless.is_refusal() && nameless.to_string().contains("metadata.name is missing"));
}

#[test]
fn repeated_keys_are_refused() {
    let yaml = VMI_TEXT.replace("guest: 1Gi", "guest: 1Gi, guest: 2Gi");
    let refusal = error(&yaml);
    assert!(
        refusal.contains("\"guest\" is repeated") && refusal.contains("line 3"),
        "{refusal}"
    );
    let json = r#"{"metadata": {"name": "a", "name": "b"}}"#;
    assert!(
        error(json).contains("\"name\" is repeated"),
        "{}",
        error(json)
    );
}
