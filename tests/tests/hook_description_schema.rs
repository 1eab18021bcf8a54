//! docs/hook-description.schema.json accepts what hosts accept.
#![allow(clippy::unwrap_used)]

use std::fs;

use hook_host::{Description, HookPoint};
use serde_json::{Value, json};
use tests::binaries::workspace;

/// Keywords of JSON schema that do not constrain values.
const ANNOTATION_KEYWORDS: [&str; 3] = ["$schema", "title", "$defs"];

fn schema() -> Value {
    let text = fs::read_to_string(workspace().join("docs/hook-description.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Whether `schema` accepts `value`. Implements the keywords of JSON schema that the file uses.
fn accepts(root: &Value, schema: &Value, value: &Value) -> bool {
    let rules = schema.as_object().unwrap().iter();
    rules
        .filter(|(keyword, _)| !ANNOTATION_KEYWORDS.contains(&keyword.as_str()))
        .all(|(keyword, rule)| satisfies(root, keyword, rule, value))
}

fn satisfies(root: &Value, keyword: &str, rule: &Value, value: &Value) -> bool {
    match keyword {
        "$ref" => {
            let pointer = rule.as_str().unwrap().trim_start_matches('#');
            accepts(root, root.pointer(pointer).unwrap(), value)
        }
        "type" => match rule {
            Value::String(name) => is_type(name, value),
            names => {
                let mut names = names.as_array().unwrap().iter();
                names.any(|name| is_type(name.as_str().unwrap(), value))
            }
        },
        "enum" => rule.as_array().unwrap().contains(value),
        "minimum" => value
            .as_i64()
            .is_none_or(|value| value >= rule.as_i64().unwrap()),
        "maximum" => value
            .as_i64()
            .is_none_or(|value| value <= rule.as_i64().unwrap()),
        "maxLength" => value
            .as_str()
            .is_none_or(|value| value.chars().count() as u64 <= rule.as_u64().unwrap()),
        "pattern" => {
            let prefix = rule.as_str().unwrap().strip_prefix('^').unwrap();
            value.as_str().is_none_or(|value| value.starts_with(prefix))
        }
        "anyOf" => {
            let mut schemas = rule.as_array().unwrap().iter();
            schemas.any(|schema| accepts(root, schema, value))
        }
        "minItems" => value
            .as_array()
            .is_none_or(|value| value.len() as u64 >= rule.as_u64().unwrap()),
        "minProperties" => value
            .as_object()
            .is_none_or(|value| value.len() as u64 >= rule.as_u64().unwrap()),
        "maxItems" => value
            .as_array()
            .is_none_or(|value| value.len() as u64 <= rule.as_u64().unwrap()),
        "items" => value
            .as_array()
            .is_none_or(|value| value.iter().all(|item| accepts(root, rule, item))),
        "required" => {
            let mut names = rule.as_array().unwrap().iter();
            names.all(|name| value.get(name.as_str().unwrap()).is_some())
        }
        // Beside `properties`, in the same schema.
        "additionalProperties" => {
            let known = root.pointer("/$defs/conditionedPath/properties").unwrap();
            assert_eq!(rule, &json!(false));
            value
                .as_object()
                .is_none_or(|value| value.keys().all(|name| known.get(name).is_some()))
        }
        "properties" => rule.as_object().unwrap().iter().all(|(name, rule)| {
            let value = value.get(name);
            value.is_none_or(|value| accepts(root, rule, value))
        }),
        other => panic!("the test does not know the keyword {other}"),
    }
}

fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "null" => value.is_null(),
        "integer" => value.is_i64(),
        other => panic!("the test does not know the type {other}"),
    }
}

fn with_wish(name: &str, value: Value) -> Value {
    json!({"wishes": {name: value}})
}

fn with_hook_points(value: Value) -> Value {
    json!({ "hookPoints": value })
}

#[test]
fn the_schema_accepts_what_hosts_accept() {
    let schema = schema();
    let path = |bytes: usize| format!("/domain/{}", "x".repeat(bytes - "/domain/".len()));
    let mut accepted = 0;
    let values = [
        json!({}),
        json!([]),
        json!("x"),
        json!({"name": "a", "version": "1", "future": {"x": 1}}),
        json!({"name": null, "version": null, "hookPoints": null, "wishes": null}),
        json!({"name": 1}),
        json!({"version": ["1"]}),
        json!({"name": "x".repeat(253)}),
        json!({"name": "x".repeat(254)}),
        with_hook_points(json!([])),
        with_hook_points(json!({})),
        with_hook_points(json!(["PreStart"])),
        with_hook_points(json!([{}])),
        with_hook_points(
            json!([{"name": "PreStart"}, {"name": "PreCloudInitIso", "priority": null}]),
        ),
        with_hook_points(json!([{"name": "OnDefineDomain", "priority": i32::MAX, "x": 0}])),
        with_hook_points(json!([{"name": "Shutdown", "priority": i32::MIN}])),
        with_hook_points(json!([{"name": "Shutdown", "priority": i64::from(i32::MAX) + 1}])),
        with_hook_points(json!([{"name": "Shutdown", "priority": i64::from(i32::MIN) - 1}])),
        with_hook_points(json!([{"name": "Shutdown", "priority": "1"}])),
        with_hook_points(json!([{"name": "Shutdown", "priority": 0.5}])),
        with_hook_points(json!([{"name": "onDefineDomain"}])),
        with_hook_points(
            HookPoint::ALL
                .map(|point| json!({"name": point.to_string()}))
                .into(),
        ),
        with_hook_points(json!([{"name": "PreStart"}, {"name": "PreStart", "priority": 2}])),
        json!({"wishes": []}),
        json!({"wishes": {}}),
        with_wish("future", json!([])),
        with_wish("paths", json!(null)),
        with_wish("paths", json!("/domain/title")),
        with_wish("paths", json!(["/domain/title", "/domain/devices/**"])),
        with_wish("paths", json!([1])),
        with_wish("paths", json!(["title"])),
        with_wish("paths", json!(["/domains/title"])),
        with_wish("paths", json!([path(1024)])),
        with_wish("paths", json!([path(1025)])),
        with_wish("paths", json!(vec!["/domain/title"; 256])),
        with_wish("paths", json!(vec!["/domain/title"; 257])),
        with_wish(
            "paths",
            json!([{"path": "/domain/title", "one-of": ["a", "b"]}, "/domain/**"]),
        ),
        with_wish(
            "paths",
            json!([{"path": "/domain/a/@file", "below": "/logs", "matches": ".*"}]),
        ),
        with_wish(
            "paths",
            json!([{"path": "/domain/iothreads", "at-most": 4}]),
        ),
        with_wish(
            "paths",
            json!([{"path": "/domain/iothreads", "at-most": "4"}]),
        ),
        with_wish(
            "paths",
            json!([{"path": "/domain/iothreads", "at-most": -1}]),
        ),
        with_wish(
            "paths",
            json!([{"path": "/domain/iothreads", "at-most": null}]),
        ),
        with_wish("paths", json!([{"path": "/domain/title"}])),
        with_wish("paths", json!([{"one-of": ["a"]}])),
        with_wish("paths", json!([{"path": "title", "one-of": ["a"]}])),
        with_wish("paths", json!([{"path": "/domain/title", "one-of": []}])),
        with_wish(
            "paths",
            json!([{"path": "/domain/title", "one-of": vec!["a"; 65]}]),
        ),
        with_wish("paths", json!([{"path": "/domain/title", "oneOf": ["a"]}])),
        with_wish(
            "paths",
            json!([{"path": "/domain/title", "one-of": ["a"], "future": 1}]),
        ),
        with_wish(
            "paths",
            json!([{"path": "/domain/a/@file", "below": "logs"}]),
        ),
        with_wish("config", json!(vec!["k"; 256])),
        with_wish("config", json!(vec!["k"; 257])),
        with_wish("config", json!([null])),
        with_wish("dirs", json!(["/etc/x"])),
        with_wish("migration", json!(["bandwidth", "max-downtime"])),
        with_wish("migration", json!(["speed"])),
        json!({"hookPoints": [{"name": "PreMigrationSource"}]}),
        with_wish("dirs", json!(["etc/x"])),
        with_wish("dirs", json!(vec!["/x"; 257])),
    ];
    for value in &values {
        let host_result = Description::parse(&value.to_string());
        let is_accepted_by_schema = accepts(&schema, &schema, value);
        let excerpt: String = value.to_string().chars().take(200).collect();
        assert_eq!(
            is_accepted_by_schema,
            host_result.is_ok(),
            "{excerpt}: {host_result:?}"
        );
        accepted += usize::from(is_accepted_by_schema);
    }
    assert!(accepted > 10 && accepted < values.len() - 10);
}

#[test]
fn example_of_the_docs_page_is_accepted() {
    let page = fs::read_to_string(workspace().join("docs/hook-description.md")).unwrap();
    let example = page.split("```json\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    let schema = schema();
    let value: Value = serde_json::from_str(example).unwrap();
    assert!(accepts(&schema, &schema, &value));
    let description = Description::parse(example).unwrap();
    assert_eq!(description.wishes.unwrap().paths.len(), 2);
}
