//! Descriptions that are accepted or refused, and the limits of wishes.

use std::path::PathBuf;

use super::*;

#[test]
fn unknown_members_are_ignored_and_missing_ones_empty() {
    let text = r#"{"name":"a","future":{"x":1},"hookPoints":[{"name":"PreStart","priority":-3,"y":0},{"name":"OnDefineDomain"}]}"#;
    let description = Description::parse(text).unwrap();
    assert_eq!(description.name, "a");
    assert_eq!(description.version, "");
    assert_eq!(description.priority(HookPoint::PreStart), Some(-3));
    assert_eq!(description.priority(HookPoint::OnDefineDomain), Some(0));
    assert_eq!(description.priority(HookPoint::Shutdown), None);
    assert_eq!(Description::parse("{}").unwrap(), Description::default());
}

#[test]
fn unknown_members_of_wishes_are_ignored_and_wrong_types_refused() {
    let wishes = |text: &str| Description::parse(text).map(|description| description.wishes);
    assert_eq!(wishes("{}").unwrap(), None);
    assert_eq!(
        wishes(r#"{"wishes":{"future":[]}}"#).unwrap(),
        Some(Wishes::default())
    );
    let text = r#"{"wishes":{"paths":["/domain/title"],"config":["a"],"dirs":["/etc/x"]}}"#;
    let parsed = wishes(text).unwrap().unwrap();
    assert_eq!(parsed.paths[0].path(), "/domain/title");
    assert_eq!(
        (parsed.config, parsed.dirs),
        (vec!["a".into()], vec![PathBuf::from("/etc/x")])
    );
    for (text, part) in [
        (r#"{"wishes":[]}"#, "wishes should be an object"),
        (r#"{"wishes":{"paths":[1]}}"#, "wishes.paths should be"),
        (r#"{"wishes":{"paths":["title"]}}"#, "begin with /domain/"),
        (r#"{"wishes":{"paths":["/domain/["]}}"#, "wishes.paths"),
        (r#"{"wishes":{"dirs":["../x"]}}"#, "wishes.dirs"),
        (
            r#"{"wishes":{"paths":["/domain/a[1][1][1][1][1][1][1][1][1]"]}}"#,
            "9 predicates, more than 8",
        ),
    ] {
        let error = wishes(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn a_path_may_have_a_condition_and_an_unknown_one_is_refused() {
    let wishes = |path: &str| {
        let text = format!(r#"{{"wishes":{{"paths":["/domain/title",{path}]}}}}"#);
        let description = Description::parse(&text).map_err(|error| error.to_string())?;
        Ok::<_, String>(description.wishes.unwrap().paths)
    };
    let paths = wishes(r#"{"path":"/domain/iothreads","at-most":4}"#).unwrap();
    let shown: Vec<String> = paths.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["/domain/title", "/domain/iothreads (at-most: 4)"]);
    for (path, part) in [
        (
            r#"{"path":"/domain/iothreads","at-most":4,"at-least":1}"#,
            "in its description, wishes.paths: unknown field `at-least`",
        ),
        (
            r#"{"path":"/domain/iothreads","at-most":null}"#,
            "expected a whole number for at-most, without quotes, sign and unit",
        ),
        (r#"{"path":"/domain/iothreads"}"#, "there is no condition"),
        (r#"{"at-most":4}"#, "missing field `path`"),
        (
            r#"["/domain/iothreads"]"#,
            "a list of path patterns, some with conditions",
        ),
    ] {
        let error = wishes(path).unwrap_err();
        assert!(error.contains(part), "{path}: {error}");
    }
}

#[test]
fn wishes_with_unprintable_characters_are_refused() {
    for c in [
        '\n', '\u{7f}', '\u{85}', '\u{9b}', '\u{200b}', '\u{2028}', '\u{2029}', '\u{202e}',
    ] {
        for (member, wish) in [
            ("paths", format!("/domain/title[@x='{c}kind: Pod{c}']")),
            ("config", format!("a{c}b")),
            ("dirs", format!("/etc/a{c}b")),
            ("pod", format!("annotations/a{c}b")),
        ] {
            let text = serde_json::json!({ "wishes": { member: [wish] } }).to_string();
            let error = Description::parse(&text).unwrap_err().to_string();
            assert!(error.contains(&format!("wishes.{member}")), "{error}");
            assert!(error.chars().all(is_printable), "{error:?}");
        }
    }
}

#[test]
fn the_number_and_length_of_wishes_are_limited() {
    let wishes = |paths: Vec<String>| {
        let text = serde_json::json!({ "wishes": { "paths": paths } }).to_string();
        Description::parse(&text).map(|_| ())
    };
    let many = |count: usize| vec!["/domain/a".to_owned(); count];
    assert_eq!(wishes(many(256)), Ok(()));
    let error = wishes(many(257)).unwrap_err().to_string();
    assert!(error.contains("257 entries, more than 256"), "{error}");
    let long = |bytes: usize| vec![format!("/domain/{}", "a".repeat(bytes - 8))];
    assert_eq!(wishes(long(1024)), Ok(()));
    let error = wishes(long(1025)).unwrap_err().to_string();
    assert!(error.contains("1025 bytes, more than 1024"), "{error}");
}

#[test]
fn error_for_an_unknown_name_has_its_member_the_known_names_and_a_remedy() {
    for (description, member_and_name, known) in [
        (
            r#"{"hookPoints":[{"name":"PostStop"}]}"#,
            "hookPoints[].name has \"PostStop\"",
            "PreStart, PreCloudInitIso, OnDefineDomain, OnAttachDevice, PreMigrationSource, Shutdown",
        ),
        (
            r#"{"wishes":{"migration":["bandwidth","zero-copy"]}}"#,
            "wishes.migration has \"zero-copy\"",
            "bandwidth, parallel-connections, allow-post-copy, allow-auto-converge, completion-timeout, max-downtime",
        ),
        (
            r#"{"wishes":{"pod":["labels/a","node-name"]}}"#,
            "wishes.pod has \"node-name\"",
            "annotations/KEY, labels/KEY, network-status/NAMESPACE/NAME, default-network, network-info; * stands for any \
             characters of KEY or NAME",
        ),
    ] {
        let error = Description::parse(description).unwrap_err().to_string();
        let expected = format!(
            "in its description, {member_and_name}, which this host of virt-hook:hooks@{} does not have (it has {known}): \
             correct the name, build the module without it, or use a version of virt-launcher or virt-hook that has it",
            crate::wasm::package_version()
        );
        assert_eq!(error, expected);
    }
}

#[test]
fn a_long_unknown_name_is_shortened_and_the_remedy_is_kept() {
    let name = "x".repeat(400);
    for description in [
        serde_json::json!({"hookPoints": [{ "name": name }]}),
        serde_json::json!({"wishes": {"migration": [name]}}),
        serde_json::json!({"wishes": {"pod": [name]}}),
    ] {
        let error = Description::parse(&description.to_string());
        let error = error.unwrap_err().to_string();
        assert!(error.contains("(240 more bytes)"), "{error}");
        assert!(error.ends_with("use a version of virt-launcher or virt-hook that has it"));
    }
}

#[test]
fn error_names_the_invalid_member() {
    let error = |text: &str| Description::parse(text).unwrap_err().to_string();
    assert!(error("[]").contains("not a JSON object"));
    assert!(error(r#"{"name":3}"#).contains("name should be"));
    assert!(error("{\"name\":\"a\\nb\"}").contains("printable"));
    assert!(error(r#"{"hookPoints":[{"name":"PreStart","priority":1e10}]}"#).contains("32-bit"));
    assert!(error(r#"{"hookPoints":{}}"#).contains("a list"));
    assert!(error(&" ".repeat(70_000)).contains("70000 bytes"));
}
