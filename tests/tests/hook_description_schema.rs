//! docs/hook-description.schema.json accepts what hosts accept.
#![allow(clippy::unwrap_used)]

use std::fs;

use hook_host::{Description, HookPoint};
use serde_json::{Value, json};
use tests::binaries::workspace;

/// Keywords of JSON schema that say nothing about values.
const NOTES: [&str; 3] = ["$schema", "title", "$defs"];

fn schema() -> Value {
    let text = fs::read_to_string(workspace().join("docs/hook-description.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The part of JSON schema that the file uses.
fn accepts(root: &Value, schema: &Value, value: &Value) -> bool {
    let rules = schema.as_object().unwrap().iter();
    rules
        .filter(|(keyword, _)| !NOTES.contains(&keyword.as_str()))
        .all(|(keyword, rule)| holds(root, keyword, rule, value))
}

fn holds(root: &Value, keyword: &str, rule: &Value, value: &Value) -> bool {
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
            .is_none_or(|own| own >= rule.as_i64().unwrap()),
        "maximum" => value
            .as_i64()
            .is_none_or(|own| own <= rule.as_i64().unwrap()),
        "maxLength" => value
            .as_str()
            .is_none_or(|own| own.chars().count() as u64 <= rule.as_u64().unwrap()),
        "pattern" => {
            let prefix = rule.as_str().unwrap().strip_prefix('^').unwrap();
            value.as_str().is_none_or(|own| own.starts_with(prefix))
        }
        "maxItems" => value
            .as_array()
            .is_none_or(|own| own.len() as u64 <= rule.as_u64().unwrap()),
        "items" => value
            .as_array()
            .is_none_or(|own| own.iter().all(|item| accepts(root, rule, item))),
        "required" => {
            let mut names = rule.as_array().unwrap().iter();
            names.all(|name| value.get(name.as_str().unwrap()).is_some())
        }
        "properties" => rule.as_object().unwrap().iter().all(|(name, rule)| {
            let own = value.get(name);
            own.is_none_or(|own| accepts(root, rule, own))
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

fn wishes(name: &str, value: Value) -> Value {
    json!({"wishes": {name: value}})
}

fn points(value: Value) -> Value {
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
        points(json!([])),
        points(json!({})),
        points(json!(["PreStart"])),
        points(json!([{}])),
        points(json!([{"name": "PreStart"}, {"name": "PreCloudInitIso", "priority": null}])),
        points(json!([{"name": "OnDefineDomain", "priority": i32::MAX, "x": 0}])),
        points(json!([{"name": "Shutdown", "priority": i32::MIN}])),
        points(json!([{"name": "Shutdown", "priority": i64::from(i32::MAX) + 1}])),
        points(json!([{"name": "Shutdown", "priority": i64::from(i32::MIN) - 1}])),
        points(json!([{"name": "Shutdown", "priority": "1"}])),
        points(json!([{"name": "Shutdown", "priority": 0.5}])),
        points(json!([{"name": "onDefineDomain"}])),
        points(
            HookPoint::ALL
                .map(|point| json!({"name": point.to_string()}))
                .into(),
        ),
        points(json!([{"name": "PreStart"}, {"name": "PreStart", "priority": 2}])),
        json!({"wishes": []}),
        json!({"wishes": {}}),
        wishes("future", json!([])),
        wishes("paths", json!(null)),
        wishes("paths", json!("/domain/title")),
        wishes("paths", json!(["/domain/title", "/domain/devices/**"])),
        wishes("paths", json!([1])),
        wishes("paths", json!(["title"])),
        wishes("paths", json!(["/domains/title"])),
        wishes("paths", json!([path(1024)])),
        wishes("paths", json!([path(1025)])),
        wishes("paths", json!(vec!["/domain/title"; 256])),
        wishes("paths", json!(vec!["/domain/title"; 257])),
        wishes("config", json!(vec!["k"; 256])),
        wishes("config", json!(vec!["k"; 257])),
        wishes("config", json!([null])),
        wishes("dirs", json!(["/etc/x"])),
        wishes("migration", json!(["bandwidth", "max-downtime"])),
        wishes("migration", json!(["speed"])),
        json!({"hookPoints": [{"name": "PreMigrationSource"}]}),
        wishes("dirs", json!(["etc/x"])),
        wishes("dirs", json!(vec!["/x"; 257])),
    ];
    for value in &values {
        let by_host = Description::parse(&value.to_string());
        let by_schema = accepts(&schema, &schema, value);
        let shown: String = value.to_string().chars().take(200).collect();
        assert_eq!(by_schema, by_host.is_ok(), "{shown}: {by_host:?}");
        accepted += usize::from(by_schema);
    }
    assert!(accepted > 10 && accepted < values.len() - 10);
}

#[test]
fn the_pages_example_is_accepted() {
    let page = fs::read_to_string(workspace().join("docs/hook-description.md")).unwrap();
    let example = page.split("```json\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    let schema = schema();
    let value: Value = serde_json::from_str(example).unwrap();
    assert!(accepts(&schema, &schema, &value));
    let description = Description::parse(example).unwrap();
    assert_eq!(description.wishes.unwrap().paths.len(), 2);
}
