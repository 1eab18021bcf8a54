//! Paths that are accepted or refused, in the two notations of wishes and policies.

use super::*;

fn from_json(json: &str) -> Result<ConditionedPath, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

fn from_yaml(yaml: &str) -> Result<ConditionedPath, String> {
    serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
}

const FILE: &str = "/domain/devices/serial/log/@file";

#[test]
fn wishes_in_json_and_policies_in_yaml_are_the_same() {
    for (json, yaml, shown) in [
        (
            "\"/domain/title\"".to_owned(),
            "/domain/title".to_owned(),
            "/domain/title".to_owned(),
        ),
        (
            format!(r#"{{"path": "{FILE}", "below": "/var/log/vms/"}}"#),
            format!("{{path: {FILE}, below: /var/log/vms}}"),
            format!("{FILE} (below: /var/log/vms)"),
        ),
        (
            r#"{"path": "/domain/iothreads", "at-most": 8, "one-of": ["1", "2"]}"#.to_owned(),
            "path: /domain/iothreads\nat-most: 8\none-of: ['1', '2']".to_owned(),
            "/domain/iothreads (one-of: \"1\", \"2\", at-most: 8)".to_owned(),
        ),
        (
            r#"{"path": "/domain/title", "matches": "[a-z]+"}"#.to_owned(),
            "{path: /domain/title, matches: '[a-z]+'}".to_owned(),
            "/domain/title (matches: \"[a-z]+\")".to_owned(),
        ),
    ] {
        let path = from_json(&json).unwrap();
        assert_eq!(from_yaml(&yaml).as_ref(), Ok(&path), "{yaml}");
        assert_eq!(path.to_string(), shown);
        let written = serde_json::to_string(&path).unwrap();
        assert_eq!(from_json(&written), Ok(path), "{written}");
    }
}

#[test]
fn a_condition_that_is_not_understood_is_refused_by_name() {
    for (fields, part) in [
        (
            r#""above": "/a""#,
            "unknown field `above`, expected one of `path`, `below`, `one-of`, `matches`, `at-most`",
        ),
        (r#""oneOf": ["a"]"#, "unknown field `oneOf`"),
        (r#""below": "/a", "future": 1"#, "unknown field `future`"),
        (r#""below": null"#, "null"),
        (r#""at-most": null"#, "a whole number for at-most"),
        (r#""matches": 5"#, "integer `5`"),
        (r#""at-most": -1"#, "-1"),
        (r#""at-most": 1.5"#, "1.5"),
        (
            r#""at-most": "8""#,
            "string \"8\", expected a whole number for at-most",
        ),
        (
            r#""at-most": 18446744073709551616"#,
            "whole number for at-most",
        ),
        (r#""one-of": [1]"#, "integer `1`"),
        (r#""one-of": "a""#, "a sequence"),
        (r#""one-of": []"#, "one-of lists nothing"),
        (r#""one-of": ["a\u0000"]"#, "unprintable"),
        (r#""below": "log""#, "absolute path"),
        (r#""below": """#, "absolute path"),
        (r#""below": "/a/../b""#, "absolute path"),
        (r#""below": "/a\u0000b""#, "unprintable"),
        (
            r#""matches": "(""#,
            "is not a regular expression: unclosed group",
        ),
        (r#""matches": "a)|(b""#, "is not a regular expression"),
        (r#""matches": "(?x)a #""#, "is not a regular expression"),
        (r#""matches": "(a)\\1""#, "is not a regular expression"),
        (r#""matches": "(?=a)""#, "is not a regular expression"),
        (r#""matches": "a{1000}{1000}""#, "too large an expression"),
    ] {
        let json = format!(r#"{{"path": "{FILE}", {fields}}}"#);
        let error = from_json(&json).unwrap_err();
        assert!(error.contains(part), "{json}: {error}");
    }
    let long = "a".repeat(257);
    let error = from_json(&format!(r#"{{"path": "{FILE}", "matches": "{long}"}}"#)).unwrap_err();
    assert!(error.contains("257 bytes, more than 256"), "{error}");
    let many = vec!["\"a\""; 65].join(",");
    let error = from_json(&format!(r#"{{"path": "{FILE}", "one-of": [{many}]}}"#)).unwrap_err();
    assert!(error.contains("65 values, more than 64"), "{error}");
    for (yaml, part) in [
        (format!("{{path: {FILE}}}"), "there is no condition"),
        (format!("{{path: {FILE}, below:}}"), ""),
        (format!("{{path: {FILE}, below: /a, below: /}}"), "below"),
        ("{below: /a}".to_owned(), "missing field `path`"),
        ("{path: [/domain/title], below: /a}".to_owned(), ""),
    ] {
        let error = from_yaml(&yaml).unwrap_err();
        assert!(error.contains(part), "{yaml}: {error}");
    }
}

#[test]
fn a_condition_is_about_the_value_of_one_named_node() {
    for path in [
        "/domain/devices/**",
        "/domain/devices/*",
        "/domain/devices/serial/log/@*",
        "/domain/qemu:*",
        "/domain/**",
    ] {
        let error = from_json(&format!(r#"{{"path": "{path}", "below": "/a"}}"#)).unwrap_err();
        assert!(
            error.contains(path) && error.contains("ends in a wildcard"),
            "{error}"
        );
    }
    for path in [
        "/domain/*/serial/log/@file",
        "/domain/**/@file",
        "/domain/title",
        "/domain/os/boot[1]",
    ] {
        from_json(&format!(r#"{{"path": "{path}", "below": "/a"}}"#)).unwrap();
    }
}

#[test]
fn a_path_that_ends_in_an_element_has_its_own_attributes() {
    let attributes = |json: &str| Some(from_json(json).unwrap().own_attributes()?.to_string());
    let entry = "/domain/sysinfo[@type='smbios']/system/entry";
    assert_eq!(
        attributes(&format!("\"{entry}\"")),
        Some(format!("{entry}/@*"))
    );
    for other in [
        "/domain/*",
        "/domain/**",
        "/domain/@type",
        "/domain/devices/disk/@*",
    ] {
        assert_eq!(attributes(&format!("\"{other}\"")), None, "{other}");
    }
    // A condition on the text says nothing of attributes, one of which may change what the text means.
    assert_eq!(
        attributes(r#"{"path": "/domain/memory", "at-most": 5}"#),
        None
    );
}
