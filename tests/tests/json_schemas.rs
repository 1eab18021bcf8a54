//! The JSON schemas in docs/ accept what hosts accept: descriptions of modules, `hook.yaml` and operators' policies.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use hook_host::policy::permission::DangerKind;
use hook_host::policy::{HookYaml, OperatorPolicy};
use hook_host::{Description, HookPoint, MigrationParameter};
use regex::Regex;
use serde_json::{Value, json};
use tests::binaries::workspace;

/// Keywords of JSON schema that do not constrain values.
const ANNOTATION_KEYWORDS: [&str; 4] = ["$schema", "title", "description", "$defs"];

/// The schema of what a module says about itself, of `hook.yaml`, or of a policy.
fn schema(name: &str) -> Value {
    let path = workspace().join(format!("docs/{name}.schema.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Whether `schema` accepts `value`. Implements the keywords of JSON schema that the files use.
fn accepts(root: &Value, schema: &Value, value: &Value) -> bool {
    let rules = schema.as_object().unwrap().iter();
    rules
        .filter(|(keyword, _)| !ANNOTATION_KEYWORDS.contains(&keyword.as_str()))
        .all(|(keyword, rule)| satisfies(root, schema, keyword, rule, value))
}

/// Whether `value` satisfies a keyword of `schema`.
fn satisfies(root: &Value, schema: &Value, keyword: &str, rule: &Value, value: &Value) -> bool {
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
            let expression = Regex::new(rule.as_str().unwrap()).unwrap();
            value
                .as_str()
                .is_none_or(|value| expression.is_match(value))
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
        "additionalProperties" => {
            let known = schema.get("properties");
            let is_known = |name: &str| known.is_some_and(|known| known.get(name).is_some());
            let accepts_other = |value: &Value| match rule {
                Value::Bool(accepted) => *accepted,
                rule => accepts(root, rule, value),
            };
            value.as_object().is_none_or(|value| {
                let mut others = value.iter().filter(|(name, _)| !is_known(name));
                others.all(|(_, value)| accepts_other(value))
            })
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
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
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
fn a_description_is_accepted_as_by_hosts() {
    let schema = schema("hook-description");
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
fn the_description_of_the_docs_page_is_accepted() {
    let page = fs::read_to_string(workspace().join("docs/hook-description.md")).unwrap();
    let example = page.split("```json\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    let schema = schema("hook-description");
    let value: Value = serde_json::from_str(example).unwrap();
    assert!(accepts(&schema, &schema, &value));
    let description = Description::parse(example).unwrap();
    assert_eq!(description.wishes.unwrap().paths.len(), 2);
}

/// What an editor reads of a YAML text.
fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// A text, and whether it is valid by the schema.
type Row = (&'static str, bool);

const DIGEST: &str = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

/// Checks that the schema and the host agree on each text, in which `DIGEST` stands for one.
fn check_rows(schema_name: &str, rows: &[Row], host: impl Fn(&str) -> Result<(), String>) {
    let schema = schema(schema_name);
    for (text, expected) in rows {
        let text = text.replace("DIGEST", DIGEST);
        let by_schema = accepts(&schema, &schema, &yaml(&text));
        assert_eq!(by_schema, *expected, "{schema_name}: {text}");
        let by_host = host(&text);
        assert_eq!(
            by_host.is_ok(),
            *expected,
            "{schema_name}: {text}: {by_host:?}"
        );
    }
    assert!(rows.iter().any(|(_, expected)| *expected));
    assert!(rows.iter().any(|(_, expected)| !*expected));
}

fn read_hook_yaml(text: &str) -> Result<(), String> {
    let read = HookYaml::parse(Path::new("hook.yaml"), text);
    read.map(drop).map_err(|error| error.to_string())
}

fn read_policy(text: &str) -> Result<(), String> {
    let read = OperatorPolicy::parse(Path::new("policy.yaml"), text);
    read.map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_hook_yaml_is_accepted_as_by_hosts() {
    let rows = [
        ("{}", true),
        ("sha256: DIGEST", true),
        ("sha256: sha256:DIGEST", true),
        ("sha256: abc", false),
        ("priority: -3", true),
        ("priority: high", false),
        ("priority: 2147483648", false),
        ("prioritty: 2", false),
        (
            "hookPoints: [{name: Shutdown}, {name: PreStart, priority: 4}]",
            true,
        ),
        ("hookPoints: [{priority: 4}]", false),
        ("hookPoints: [PreStart]", false),
        ("hookPoints: [{name: Start}]", false),
        ("failurePolicy: DryRun", true),
        ("failurePolicy: Ignorre", false),
        (
            "{deadline: 250ms, memory: 2Mi, output: 96Ki, log: 1Ki}",
            true,
        ),
        ("{deadline: 1.5s, memory: 67108864, log: 1k}", true),
        ("deadline: 2", false),
        ("deadline: 2 s", false),
        ("memory: 1x", false),
        ("memory: -1", false),
        ("config: {a: b, n: 7, on: true, x: 1.5}", true),
        ("config: {a: [b]}", false),
        ("config: [a]", false),
        (
            "allow: {paths: ['/domain/sysinfo/**'], dirs: [/etc/hook], pod: [network-info, labels/tier]}",
            true,
        ),
        (
            "allow: {paths: [{path: /domain/title, one-of: [a, b]}]}",
            true,
        ),
        ("allow: {paths: [{path: /domain/title}]}", false),
        ("allow: {paths: [{path: /domain/title, oneOf: [a]}]}", false),
        ("allow: {paths: [title]}", false),
        ("allow: {dirs: [etc]}", false),
        ("allow: {pod: [labels/]}", false),
        ("allow: {pod: [name]}", false),
        ("allow: {dangerous: [/domain/devices/emulator]}", false),
        (
            "requires: {libvirt: '>=11.0', kubevirt: '>=1.9, <2', hooks: 0.1}",
            true,
        ),
        ("requires: {qemu: '10'}", false),
        ("requires: {libvirt: [11]}", false),
        ("sha256:", false),
        ("hookPoints:", false),
        ("allow: {paths: }", false),
    ];
    check_rows("hook-yaml", &rows, read_hook_yaml);
}

#[test]
fn a_policy_is_accepted_as_by_hosts() {
    let rows = [
        ("{}", true),
        (
            "{digests: Pinned, sidecars: Forbid, appliedEvents: Omit, failurePolicies: [Fail]}",
            true,
        ),
        ("digest: Any", false),
        ("digests: any", false),
        ("sidecars: No", false),
        ("sidecarsOnArrival: [shim]", true),
        ("sidecarsOnArrival: shim", false),
        ("failurePolicies: [Retry]", false),
        (
            "limits: {deadline: 1s, memory: 32Mi, output: 4Mi, log: 64Ki}",
            true,
        ),
        ("limits: {time: 2s}", false),
        ("limits: {deadline: 1}", false),
        (
            "allow: {paths: ['/domain/os/smbios/**'], config: [manufacturer], hookPoints: [OnDefineDomain]}",
            true,
        ),
        (
            "allow: {dangerous: [DiskFormat, /domain/devices/emulator], dirs: [/etc/a], pod: ['labels/*'], podRecords: []}",
            true,
        ),
        (
            "allow: {dangerous: [{path: /domain/devices/serial/log/@file, below: /var/log}]}",
            true,
        ),
        ("allow: {dangerous: [DiskForm]}", false),
        ("allow: {dangerous: ['qemu:commandline']}", false),
        ("allow: {hookPoints: [Boot]}", false),
        ("allow: {migration: [bandwidth, max-downtime]}", true),
        ("allow: {migration: [speed]}", false),
        ("allow: {path: []}", false),
        (
            "rules: [{digests: [DIGEST], namespaces: [infra], final: true, allow: {dangerous: [Emulator]}}]",
            true,
        ),
        ("rules: [{namespaces: [infra], allow: {paths: []}}]", true),
        ("rules: [{allow: {}}]", false),
        ("rules: [{digests: [], allow: {}}]", false),
        ("rules: [{namespaces: [], allow: {}}]", false),
        ("rules: [{namespaces: [Prod], allow: {}}]", false),
        ("rules: [{namespaces: ['prod-*'], allow: {}}]", false),
        ("rules: [{digests: [abc]}]", false),
        ("rules: [{keys: []}]", false),
        ("rules: [{keys: [abc]}]", false),
        ("rules: [{digests: [DIGEST], final: yes please}]", false),
        ("rules: {}", false),
        ("deniedDigests: [DIGEST]", true),
        ("deniedDigests: [7]", false),
        ("allow:", false),
    ];
    check_rows("hook-policy", &rows, read_policy);
}

/// What only hosts refuse: values out of range, and what means nothing beside other values.
#[test]
fn what_a_schema_cannot_say_is_refused_by_hosts() {
    for (name, texts, host) in [
        (
            "hook-yaml",
            &[
                "deadline: 16s",
                "memory: 1Gi",
                "output: 1Ki",
                "allow: {dirs: [/a/../b]}",
                "requires: {libvirt: '>= x'}",
            ][..],
            read_hook_yaml as fn(&str) -> Result<(), String>,
        ),
        (
            "hook-policy",
            &[
                "digests: Listed",
                "failurePolicies: [Ignore]",
                "limits: {memory: 2Gi}",
                "allow: {paths: [/domain/devices/emulator]}",
                "allow: {dangerous: ['/domain/**']}",
                "rules: [{namespaces: [a], final: true}]",
            ],
            read_policy,
        ),
    ] {
        let schema = schema(name);
        for text in texts {
            assert!(accepts(&schema, &schema, &yaml(text)), "{text}");
            assert!(host(text).is_err(), "{text}");
        }
    }
}

/// Nothing that a host knows is missing in an editor's list.
#[test]
fn lists_of_the_schemas_are_those_of_hosts() {
    let names = |schema: &Value, pointer: &str| -> Vec<String> {
        let names = schema.pointer(pointer).unwrap().as_array().unwrap().iter();
        names
            .map(|name| name.as_str().unwrap().to_owned())
            .collect()
    };
    let points = HookPoint::ALL.map(|point| point.to_string());
    for name in ["hook-yaml", "hook-policy"] {
        assert_eq!(
            names(&schema(name), "/$defs/hookPoint/enum"),
            points,
            "{name}"
        );
    }
    let policy = schema("hook-policy");
    let kinds: Vec<&str> = DangerKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names(&policy, "/$defs/dangerKind/enum"), kinds);
    let parameters = names(&policy, "/$defs/allow/properties/migration/items/enum");
    assert_eq!(
        parameters,
        MigrationParameter::ALL.map(MigrationParameter::name)
    );
}

/// Each file of an operator or a VM's owner in the docs.
#[test]
fn files_of_the_docs_are_accepted() {
    let (hook_yaml, policy) = (schema("hook-yaml"), schema("hook-policy"));
    let mut checked = [0, 0];
    for text in fenced_yaml_of_docs() {
        let (at, schema, host) = match host_of(&text) {
            Some(HostFile::HookYaml) => (0, &hook_yaml, read_hook_yaml as fn(&str) -> _),
            Some(HostFile::Policy) => (1, &policy, read_policy as fn(&str) -> _),
            None => continue,
        };
        assert_eq!(host(&text), Ok(()), "{text}");
        assert!(accepts(schema, schema, &yaml(&text)), "{text}");
        checked[at] += 1;
    }
    assert!(checked[0] >= 2 && checked[1] >= 8, "{checked:?}");
}

enum HostFile {
    HookYaml,
    Policy,
}

/// What a YAML text of the docs is, by a comment in its first line.
fn host_of(text: &str) -> Option<HostFile> {
    let first = text.lines().next()?;
    match first.strip_prefix("# ")? {
        name if name.contains("hook.yaml") => Some(HostFile::HookYaml),
        name if name.contains("policy.yaml") => Some(HostFile::Policy),
        _ => None,
    }
}

fn fenced_yaml_of_docs() -> Vec<String> {
    let pages = fs::read_dir(workspace().join("docs")).unwrap().flatten();
    let pages = pages.filter(|page| page.path().extension().is_some_and(|name| name == "md"));
    let mut blocks = Vec::new();
    for page in pages {
        let text = fs::read_to_string(page.path()).unwrap();
        for block in text.split("\n```yaml").skip(1) {
            let content = block.split_once('\n').unwrap().1;
            blocks.push(content.split("\n```").next().unwrap().to_owned());
        }
    }
    blocks
}
