//! Conditions that hold, do not hold, have no value, or are refused.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn vmi() -> Json {
    json!({
        "metadata": {"name": "test-vmi", "namespace": "default", "uid": "u-1", "generation": 3,
            "labels": {"app": "test", "üben": "ja"}, "annotations": null},
        "spec": {"architecture": "amd64", "nodeSelector": {}, "domain": {
            "cpu": {"cores": 4, "dedicatedCpuPlacement": true}, "machine": {"type": "q35"}}},
        "status": {"phase": "Scheduled", "runtimeUser": 107},
    })
}

fn holds(text: &str) -> Result<bool, NoValue> {
    let condition = Condition::parse(text);
    condition
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .holds(&vmi())
}

fn refusal(text: &str) -> String {
    match Condition::parse(text) {
        Ok(condition) => panic!("{text}: {condition:?}"),
        Err(error) => error.to_string(),
    }
}

/// The first six cases are from KubeVirt's tests.
#[test]
fn supported_conditions_have_kubevirts_meaning() {
    for (text, expected) in [
        (r#"vmi.Labels["app"] == "test""#, true),
        (r#"vmi.Labels["app"] == "other""#, false),
        (r#"vmi.Namespace == "default""#, true),
        (
            r#"vmi.Labels["app"] == "test" && vmi.Namespace == "wrong-ns""#,
            false,
        ),
        (r#"vmi.Name == "test""#, false),
        (
            r#""apply-watchdog" in vmi.Labels && vmi.Labels["apply-watchdog"] == "true""#,
            false,
        ),
        ("true", true),
        ("!true || 'a' != \"b\"", true),
        ("vmi.Labels.app == r'test'", true),
        ("has(vmi.Labels.app) && !has(vmi.Labels.other)", true),
        ("has(vmi.Labels) && !has(vmi.Annotations)", true),
        (
            "has(vmi.Spec.NodeSelector) && size(vmi.Spec.NodeSelector) == 0",
            true,
        ),
        ("'x' in vmi.Annotations", false),
        ("size(vmi.Labels) == 2 && vmi.Labels.size() > 1", true),
        ("size(vmi.Labels['üben'] ) == 2 && 'üben'.size() == 4", true),
        ("vmi.ObjectMeta.Name == vmi.Name", true),
        (
            "vmi.Name.startsWith('test-') && vmi.Name.endsWith('vmi') && vmi.Name.contains('t-v')",
            true,
        ),
        ("vmi.UID in ['u-0', 'u-1'] && !(vmi.UID in [])", true),
        ("vmi.Generation in [1, 2] || vmi.Generation > 2", true),
        (
            "vmi.Spec.Domain.CPU.Cores >= 4u && vmi.Spec.Domain.CPU.Sockets == 0u",
            true,
        ),
        (
            "has(vmi.Spec.Domain.CPU) && !has(vmi.Spec.Domain.Firmware)",
            true,
        ),
        (
            "has(vmi.Spec.Domain.CPU.Cores) && !has(vmi.Spec.Domain.CPU.Sockets)",
            true,
        ),
        ("vmi.Spec.Domain.Firmware.Serial == ''", true),
        (
            "vmi.Spec.Domain.CPU.DedicatedCPUPlacement ? vmi.Status.Phase == 'Scheduled' : false",
            true,
        ),
        ("vmi.Status.RuntimeUser == 107u", true),
        ("(vmi.Kind == '' ? 1 : 2) < 2", true),
        ("'a' < 'b' && 'B' < 'a'", true),
        ("-1 < 0 && 0x10u == 16u", true),
    ] {
        assert_eq!(holds(text), Ok(expected), "{text}");
    }
}

#[test]
fn a_missing_value_is_an_error_unless_the_other_side_decides() {
    assert_eq!(
        holds("vmi.Labels['none'] == ''"),
        Err(NoValue("no such key: none".into()))
    );
    assert_eq!(
        holds("vmi.Annotations['none'] == ''"),
        Err(NoValue("no such key: none".into()))
    );
    assert_eq!(holds("vmi.Labels['none'] == '' || true"), Ok(true));
    assert_eq!(holds("true || vmi.Labels['none'] == ''"), Ok(true));
    assert_eq!(holds("vmi.Labels['none'] == '' && false"), Ok(false));
    assert_eq!(holds("false && vmi.Labels['none'] == ''"), Ok(false));
    assert!(holds("vmi.Labels['none'] == '' || false").is_err());
    assert!(holds("true && vmi.Labels['none'] == ''").is_err());
    assert!(holds("!(vmi.Labels['none'] == '')").is_err());
    assert!(
        holds("'x' in ['x', vmi.Labels['none']]").is_err(),
        "the whole list is evaluated first"
    );
    assert_eq!(holds("true ? true : vmi.Labels['none'] == ''"), Ok(true));
    let mistyped_vmi = json!({"metadata": {"name": 7, "labels": []}});
    for text in ["vmi.Name == ''", "has(vmi.Name)", "'a' in vmi.Labels"] {
        assert!(
            Condition::parse(text)
                .unwrap()
                .holds(&mistyped_vmi)
                .is_err(),
            "{text}"
        );
    }
}

#[test]
fn unsupported_conditions_are_refused_with_a_reason() {
    for (text, part) in [
        ("", "not CEL"),
        ("invalid @@@ syntax", "not CEL"),
        ("vmi.Name ==", "not CEL"),
        ("vmi.Name", "a String stands where a Bool belongs"),
        ("vmi.Labels", "not a single value"),
        ("vmi", "not a single value"),
        ("vmi.Bogus == ''", "\"Bogus\" of vmi is not among"),
        (
            "vmi.metadata.name == ''",
            "\"metadata\" of vmi is not among",
        ),
        (
            "vmi.Spec.Domain.Memory == ''",
            "\"Memory\" of spec.domain is not among",
        ),
        ("vmi.Name.Name == ''", "asked of a single value"),
        ("domainSpec.Type == 'kvm'", "\"domainSpec\" is not known"),
        (".vmi.Name == ''", "is not known"),
        (
            "vmi.Spec.Domain.CPU.Cores > 2",
            "a Int stands where a Uint belongs",
        ),
        ("vmi.Name == 1", "a Int stands where a String belongs"),
        ("vmi.Labels[1] == ''", "a Int stands where a String belongs"),
        ("1 in ['a']", "a String stands where a Int belongs"),
        ("1 in vmi.Labels", "neither a map nor a list"),
        ("vmi.Name in vmi.Name", "neither a map nor a list"),
        ("true && vmi.Name", "a String stands where a Bool belongs"),
        ("true ? 1 : 'a'", "a String stands where a Int belongs"),
        ("has(vmi.Spec)", "always there"),
        ("vmi.Name.matches('.*')", "it uses \"matches\""),
        ("vmi.Name + 'x' == ''", "it uses \"+\""),
        ("startsWith(vmi.Name, 'x')", "it uses \"startsWith\""),
        ("vmi.Labels.exists(l, l == 'a')", "a loop"),
        ("[1, 2].all(x, x > 0)", "a loop"),
        ("{'a': true}['a']", "makes a map"),
        ("Domain{Title: 'x'}", "it makes a Domain"),
        ("1.5 < 2.0", "fraction"),
        ("b'x' == b'x'", "bytes"),
        ("vmi.Name == null", "null"),
        ("type(vmi) == vmi", "it uses \"type\""),
    ] {
        let refused = refusal(text);
        assert!(refused.contains(part), "{text}: {refused}");
    }
}

#[test]
fn length_and_nesting_are_limited() {
    assert!(refusal(&"t".repeat(5000)).contains("4096"));
    for text in [
        format!("{}true{}", "(".repeat(1000), ")".repeat(1000)),
        "!".repeat(4000) + "true",
        "true".to_owned() + &" ? true : true".repeat(250),
        "vmi".to_owned() + &".Spec".repeat(700),
        "[".repeat(4000),
        "true && (".repeat(400),
        "@#$%^&*(".repeat(500),
    ] {
        let _ = Condition::parse(&text).map(|condition| condition.holds(&vmi()));
    }
    let wide = vec!["true"; 500].join(" && ");
    assert_eq!(holds(&wide), Ok(true), "a long chain is not nested");
}

proptest! {
    #[test]
    fn parsing_ascii_never_panics(text in "[a-z.'\"()\\[\\]{}!&|=<>?:,0-9 u+-]{0,60}") {
        let _ = Condition::parse(&text).map(|condition| condition.holds(&vmi()));
    }

    #[test]
    fn parsing_unicode_never_panics(text in ".{0,40}") {
        let _ = Condition::parse(&text).map(|condition| condition.holds(&vmi()));
    }

    #[test]
    fn a_string_literal_equals_its_text(value in "[ -~&&[^'\\\\]]{0,40}") {
        let vmi = json!({"metadata": {"labels": {"k": value}}});
        let condition = Condition::parse(&format!("vmi.Labels['k'] == '{value}'")).unwrap();
        prop_assert_eq!(condition.holds(&vmi), Ok(true));
    }
}
