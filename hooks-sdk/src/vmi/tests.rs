//! Reading a VMI by path and lazily, and its errors.
use super::*;

const VMI: &str = r#" {"metadata":{"name":"vm","namespace":"ns","uid":"u","labels":{"app":"x"},
        "annotations":{"a.b/c":"d","n":"1","esc\"aped":"li\nne"},
        "ownerReferences":[{"kind":"VirtualMachineInstanceReplicaSet","name":"no"},{"kind":"VirtualMachine","name":"web"}]},
        "spec":{"nodeSelector":{"zone":"a","kubernetes.io/arch":"amd64"},
        "domain":{"cpu":{"cores":2,"threads":2},"memory":{"guest":"1.5Gi"}},"volumes":[{"name":"root"}],"on":true},"ours":null}"#;

#[test]
fn metadata_is_at_hand_and_the_rest_by_path() {
    let vmi = Vmi::new(VMI);
    assert_eq!((vmi.name(), vmi.namespace(), vmi.uid()), ("vm", "ns", "u"));
    assert_eq!(vmi.annotation("a.b/c"), Some("d"));
    assert_eq!(vmi.annotation("esc\"aped"), Some("li\nne"));
    let annotations: Vec<_> = vmi.annotations().collect();
    assert_eq!(
        annotations,
        [("a.b/c", "d"), ("n", "1"), ("esc\"aped", "li\nne")]
    );
    assert_eq!(vmi.labels().collect::<Vec<_>>(), [("app", "x")]);
    assert_eq!(vmi.label("none"), None);
    assert_eq!(vmi.number("spec.domain.cpu.cores"), Some(2));
    assert_eq!(vmi.vcpus(), 4);
    assert_eq!(vmi.virtual_machine(), Some("web"));
    let labels: Vec<_> = vmi.node_selector().collect();
    assert_eq!(labels, [("zone", "a"), ("kubernetes.io/arch", "amd64")]);
    assert_eq!(vmi.guest_memory_bytes(), Some(3 << 29));
    assert_eq!(vmi.quantity("spec.domain.cpu.cores"), Some(2));
    assert_eq!(vmi.quantity("metadata.name"), None);
    assert_eq!(vmi.text("metadata.annotations['a.b/c']"), Some("d"));
    assert_eq!(vmi.text("spec.volumes[0].name"), Some("root"));
    assert!(vmi.is_true("spec.on") && !vmi.is_true("spec"));
    assert_eq!(vmi.raw_json(), VMI);
    assert_eq!(vmi.parse_error(), None);
}

#[test]
fn a_path_that_leads_nowhere_is_none() {
    let vmi = Vmi::new(VMI);
    for path in [
        "x",
        "spec.volumes[1]",
        "spec.on.x",
        "metadata.name.x",
        "spec.volumes[name=y]",
        "spec.domain[name=y]",
    ] {
        assert!(vmi.get(path).is_none(), "{path}");
    }
    assert_eq!(vmi.parse_error(), None);
}

#[test]
fn it_is_read_up_to_what_is_asked_and_no_further() {
    let vmi = Vmi::new(r#"{"metadata":{"name":"vm"},"spec":#"#);
    assert_eq!((vmi.name(), vmi.parse_error()), ("vm", None));
    assert_eq!(vmi.text("spec.x"), None);
    let parse_error = vmi.parse_error().unwrap().to_string();
    assert_eq!(
        parse_error,
        "the VMI cannot be read: expected a value at line 1, column 34"
    );
}

#[test]
fn invalid_vmi_error_contains_the_reason() {
    let parse_error = |text: &str| {
        let vmi = Vmi::new(text);
        assert_eq!(vmi.name(), "");
        vmi.parse_error().map(ToString::to_string)
    };
    assert!(
        parse_error("{")
            .unwrap()
            .contains("expected a text at line 1, column 2")
    );
    assert_eq!(
        parse_error("[]").unwrap(),
        "the VMI cannot be read: it is not a JSON object"
    );
    assert_eq!(parse_error("{}"), None);
}

#[test]
fn quantities_are_read_as_kubernetes_reads_them() {
    for (text, number) in [
        ("0", Some(0)),
        ("2Gi", Some(2 << 30)),
        ("1.5Gi", Some(3 << 29)),
        ("128M", Some(128_000_000)),
        ("1k", Some(1000)),
        ("100m", Some(1)),
        ("1500m", Some(2)),
        ("2000000u", Some(2)),
        ("2000000001n", Some(3)),
        ("1e3", Some(1000)),
        ("1E3", Some(1000)),
        ("12e-1", Some(2)),
        ("1e-99", Some(1)),
        ("1E", Some(1_000_000_000_000_000_000)),
        ("+1", Some(1)),
        (".5Ki", Some(512)),
        ("7Ei", Some(7 << 60)),
        ("8Ei", None),
        ("-1", None),
        ("", None),
        ("Gi", None),
        ("1gi", None),
        ("1e", None),
        ("１", None),
    ] {
        let vmi = Vmi::new(format!(r#"{{"q":"{text}"}}"#));
        assert_eq!(vmi.quantity("q"), number, "{text}");
    }
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let vmi = Vmi::new(format!("{{\"a\":{}", "[".repeat(100_000)));
    assert_eq!(vmi.name(), "");
    assert!(vmi.parse_error().is_some());
}

#[test]
fn an_invalid_path_is_an_error_at_the_end_of_the_call() {
    let vmi = Vmi::new(r#"{"spec":{"a":1}}"#);
    assert_eq!(vmi.number("spec.b"), None);
    assert_eq!(vmi.parse_error(), None);
    for path in ["..", "a[x]", "a[", "a['"] {
        let vmi = vmi.clone();
        assert!(
            vmi.get(path).is_none() && vmi.parse_error().is_some(),
            "{path}"
        );
    }
    assert_eq!(vmi.number("spec..a"), None);
    let error = vmi.parse_error().unwrap().to_string();
    assert!(
        error.starts_with("`spec..a` is not a path into the VMI"),
        "{error}"
    );
}
