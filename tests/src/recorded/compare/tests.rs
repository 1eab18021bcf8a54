use serde_json::json;

use super::*;

fn rule(path: Path, how: How) -> Rule {
    let reason = "a test";
    Rule { path, how, reason }
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
fn rules_relax_what_they_name_and_nothing_else() {
    let recorded = json!({ "time": 4_000_000, "disks": [{ "Name": "vda", "Reads": 5, "Path": "/a" }], "texts": ["a"] });
    let ours = json!({ "time": 9_000_000, "disks": [{ "Name": "vda", "Reads": 7, "Path": "/a" }], "texts": ["b", "c"] });
    let rules = [
        rule("time", How::Unit),
        rule("disks.*.Reads", How::Type),
        rule("texts", How::Elements),
    ];
    assert_eq!(differences(&recorded, &ours, &rules), Vec::<String>::new());
    let milliseconds = json!({ "time": 9, "disks": ours["disks"], "texts": ["b"] });
    assert_eq!(differences(&recorded, &milliseconds, &rules).len(), 1);
    let number = json!({ "time": 1, "disks": [{ "Name": "vda", "Reads": "7", "Path": "/b" }], "texts": [1] });
    assert_eq!(differences(&recorded, &number, &rules).len(), 4);
}

#[test]
fn lists_are_matched_by_what_identifies_their_elements() {
    let recorded = json!([{ "Name": "vda", "n": 1 }, { "Name": "vdb", "n": 2 }]);
    let turned =
        json!([{ "Name": "vdb", "n": 2 }, { "Name": "vdc", "n": 9 }, { "Name": "vda", "n": 1 }]);
    assert_eq!(differences(&recorded, &turned, &[]).len(), 1);
    assert!(differences(&recorded, &turned, &[rule("", How::More)]).is_empty());
}

#[test]
fn json_in_a_text_is_compared_as_json() {
    let recorded = json!({ "answer": r#"{"return":{"a":1,"b":2}}"# });
    let ours = json!({ "answer": r#"{"return":{"b":2,"a":1}}"# });
    assert!(differences(&recorded, &ours, &[]).is_empty());
    assert!(matches("answer.**", "answer.return.a"));
    assert!(!matches("answer.*", "answer.return.a"));
}
