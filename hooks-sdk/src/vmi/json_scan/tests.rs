//! The scanner compared with serde_json.
use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn check(json: &str, value: &Value) {
    match value {
        Value::String(expected) => assert_eq!(text(json).unwrap(), expected.as_str()),
        Value::Array(items) => {
            let found = inside(json).unwrap();
            assert_eq!(found.len(), items.len());
            for (at, item) in items.iter().enumerate() {
                assert_eq!(find(json, &[Step::Item(at)]).unwrap(), Some(found[at].1));
                check(found[at].1, item);
            }
            assert_eq!(find(json, &[Step::Item(items.len())]).unwrap(), None);
        }
        Value::Object(members) => {
            assert_eq!(inside(json).unwrap().len(), members.len());
            for (name, member) in members {
                let found = find(json, &[Step::Member(name)]).unwrap().unwrap();
                check(found, member);
            }
        }
        other => assert_eq!(json, other.to_string()),
    }
}

proptest! {
    #[test]
    fn it_reads_what_serde_json_wrote(value in value()) {
        check(&value.to_string(), &value);
        check(&serde_json::to_string_pretty(&value).unwrap(), &value);
    }

    #[test]
    fn escapes_mean_what_they_mean_to_serde_json(text_ in "\"([a\\\\\"nu/]|\\\\u[0d][08c][0-9a][0-9a]){0,6}\"") {
        if let Ok(expected) = serde_json::from_str::<String>(&text_) {
            prop_assert_eq!(text(&text_).unwrap(), expected);
        }
    }

    #[test]
    fn no_text_makes_it_panic(json in "[\\[\\]{}:,\"\\\\ua1é \\n]{0,24}") {
        let _ = inside(&json);
        let _ = text(&json);
        let _ = find(&json, &[Step::Member("a"), Step::Item(1)]);
    }
}

#[test]
fn error_contains_the_position() {
    let wrong = |json| find(json, &[Step::Member("b")]).unwrap_err().to_string();
    assert_eq!(
        wrong("{\"a\":1,\n \"b\" 2}"),
        "expected a colon at line 2, column 6"
    );
    assert_eq!(
        wrong("{\"a\":1 \"b\":2}"),
        "expected a comma or a closing bracket at line 1, column 8"
    );
    assert_eq!(
        wrong("{\"a\":[1"),
        "expected a closing bracket at line 1, column 8"
    );
    assert_eq!(
        wrong("{\"a"),
        "expected a closing quote at line 1, column 4"
    );
    assert_eq!(wrong("{\"b\":"), "expected a value at line 1, column 6");
    assert_eq!(wrong("{b:1}"), "expected a text at line 1, column 2");
}
