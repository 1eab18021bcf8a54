//! Tests of the comparison of a recorded answer with ours.

use serde_json::json;

use super::*;

fn rule(path: Path, strictness: Strictness) -> Rule {
    let reason = "a test";
    Rule {
        path,
        strictness,
        reason,
    }
}

fn differences(recorded: &Value, ours: &Value, rules: &[Rule]) -> Vec<String> {
    compare(recorded, ours, rules).differences
}

#[test]
fn names_types_presence_and_values_are_compared() {
    let recorded =
        json!({ "a": { "b": 1, "c": "x" }, "list": [{ "Name": "vda", "Reads": 5 }], "none": null });
    let same = json!({ "list": [{ "Reads": 5, "Name": "vda" }], "a": { "b": 1, "c": "x" } });
    assert!(differences(&recorded, &same, &[]).is_empty());
    for (ours, path) in [
        (
            json!({ "a": { "b": 1.5, "c": "x" }, "list": recorded["list"] }),
            "a.b",
        ),
        (
            json!({ "a": { "b": "1", "c": "x" }, "list": recorded["list"] }),
            "a.b",
        ),
        (json!({ "a": { "b": 1 }, "list": recorded["list"] }), "a.c"),
        (json!({ "a": { "b": 1, "c": "x" }, "list": [] }), "list.vda"),
        (
            json!({ "a": recorded["a"], "list": recorded["list"], "none": "" }),
            "none",
        ),
        (
            json!({ "a": recorded["a"], "list": recorded["list"], "more": 0 }),
            "more",
        ),
    ] {
        let found = differences(&recorded, &ours, &[]);
        assert!(
            found.len() == 1 && found[0].starts_with(&format!("{path}: ")),
            "{path}: {found:?}"
        );
    }
}

#[test]
fn absent_field_is_its_zero_value_only() {
    let recorded = json!({ "text": "", "number": 0, "flag": false, "struct": {} });
    let found = differences(&recorded, &json!({}), &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("struct: "));
}

#[test]
fn rules_relax_only_their_own_fields() {
    let recorded = json!({ "time": 4_000_000, "disks": [{ "Name": "vda", "Reads": 5, "Path": "/a" }], "texts": ["a"] });
    let ours = json!({ "time": 9_000_000, "disks": [{ "Name": "vda", "Reads": 7, "Path": "/a" }], "texts": ["b", "c"] });
    let rules = [
        rule("time", Strictness::Unit),
        rule("disks.*.Reads", Strictness::Type),
        rule("texts", Strictness::Elements),
    ];
    assert_eq!(differences(&recorded, &ours, &rules), Vec::<String>::new());
    let milliseconds = json!({ "time": 9, "disks": ours["disks"], "texts": ["b"] });
    assert_eq!(differences(&recorded, &milliseconds, &rules).len(), 1);
    let number = json!({ "time": 1, "disks": [{ "Name": "vda", "Reads": "7", "Path": "/b" }], "texts": [1] });
    assert_eq!(differences(&recorded, &number, &rules).len(), 4);
}

#[test]
fn list_elements_are_matched_by_their_identity() {
    let recorded = json!([{ "Name": "vda", "n": 1 }, { "Name": "vdb", "n": 2 }]);
    let reordered =
        json!([{ "Name": "vdb", "n": 2 }, { "Name": "vdc", "n": 9 }, { "Name": "vda", "n": 1 }]);
    assert_eq!(differences(&recorded, &reordered, &[]).len(), 1);
    let common = [rule("", Strictness::Common)];
    assert!(differences(&recorded, &reordered, &common).is_empty());
    let other_value = json!([{ "Name": "vda", "n": 2 }]);
    assert_eq!(differences(&recorded, &other_value, &common).len(), 1);
    let other_names = json!([{ "Name": "vdc", "n": 1 }]);
    assert_eq!(differences(&recorded, &other_names, &common).len(), 1);
}

#[test]
fn element_that_only_one_list_has_is_a_difference_even_if_it_is_a_zero_value() {
    let (one, none) = (json!([0]), json!([]));
    assert_eq!(differences(&one, &none, &[]).len(), 1);
    assert_eq!(differences(&none, &one, &[]).len(), 1);
}

#[test]
fn machine_dependent_list_is_empty_only_if_it_was_recorded_empty() {
    let rules = [rule("", Strictness::Elements)];
    let (some, none) = (json!(["a"]), json!([]));
    assert!(differences(&some, &json!(["b", "c"]), &rules).is_empty());
    assert!(differences(&none, &none, &rules).is_empty());
    for (recorded, ours) in [(&some, &none), (&none, &some), (&some, &Value::Null)] {
        assert_eq!(differences(recorded, ours, &rules).len(), 1, "{ours}");
    }
}

#[test]
fn unit_differs_if_the_value_is_zero_or_hundredfold() {
    let rules = [rule("", Strictness::Unit)];
    for (recorded, ours, same) in [(5, 100, true), (5, 0, false), (5, 500, false), (0, 9, true)] {
        let found = differences(&json!(recorded), &json!(ours), &rules);
        assert_eq!(found.is_empty(), same, "{recorded} {ours}");
    }
}

#[test]
fn machine_type_may_have_another_version_only() {
    let rules = [rule("", Strictness::Unversioned)];
    let recorded = json!("pc-q35-10.0");
    assert!(differences(&recorded, &json!("pc-q35-7.2"), &rules).is_empty());
    let other = differences(&recorded, &json!("pc-i440fx-10.0"), &rules);
    assert_eq!(other.len(), 1);
}

#[test]
fn intended_difference_is_exactly_the_value_of_the_rule() {
    let rules = [rule("code", Strictness::Is("137"))];
    let recorded = json!({ "code": 0 });
    let intended = compare(&recorded, &json!({ "code": 137 }), &rules);
    assert!(intended.differences.is_empty());
    assert_eq!(intended.needed_rules, BTreeSet::from([0]));
    let other = differences(&recorded, &json!({ "code": 1 }), &rules);
    assert_eq!(other.len(), 1);
    let same = compare(&recorded, &recorded, &rules);
    assert_eq!((same.differences.len(), same.needed_rules.len()), (1, 0));
}

#[test]
fn json_in_a_text_is_compared_as_json() {
    let recorded = json!({ "answer": r#"{"return":{"a":1,"b":2}}"# });
    let ours = json!({ "answer": r#"{"return":{"b":2,"a":1}}"# });
    assert!(differences(&recorded, &ours, &[]).is_empty());
    assert!(matches("answer.**", "answer.return.a"));
    assert!(!matches("answer.*", "answer.return.a"));
}
