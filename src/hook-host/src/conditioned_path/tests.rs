//! Paths that are accepted or refused, in the two notations of wishes and policies.

use std::time::{Duration, Instant};

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

fn condition(fields: &str) -> ValueCondition {
    let json = format!(r#"{{"path": "/domain/devices/serial/log/@file", {fields}}}"#);
    let path: ConditionedPath = serde_json::from_str(&json).unwrap();
    path.condition.unwrap()
}

#[track_caller]
fn check(fields: &str, met: &[&str], unmet: &[(&str, &str)]) {
    let condition = condition(fields);
    for value in met {
        assert_eq!(condition.unmet(value), None, "{fields}: {value:?}");
    }
    for (value, reason) in unmet {
        let found = condition.unmet(value).unwrap_or_default();
        assert!(
            !reason.is_empty() && found.contains(reason),
            "{fields}: {value:?}: {found:?}"
        );
    }
}

#[test]
fn below_permits_paths_in_the_directory_that_are_written_without_detours() {
    check(
        r#""below": "/var/log/vms""#,
        &[
            "/var/log/vms/a",
            "/var/log/vms/a/b.log",
            "/var/log/vms/..a",
            "/var/log/vms/a b",
            "/var/log/vms/ä",
        ],
        &[
            ("/var/log/vms", "is not below /var/log/vms"),
            ("/var/log/vms/", "`/` at the end"),
            ("/var/log/vmsx/a", "is not below"),
            ("/var/log", "is not below"),
            ("/etc/passwd", "is not below"),
            ("/var/log/vms/../../etc/passwd", "`..`"),
            ("/var/log/vms/..", "`..`"),
            ("/var/log/vms/./a", "`.`"),
            ("/var/log/vms//a", "`//`"),
            ("//var/log/vms/a", "`//`"),
            ("/var/log/vms/a/", "`/` at the end"),
            ("", "not an absolute path"),
            ("var/log/vms/a", "not an absolute path"),
            ("./var/log/vms/a", "not an absolute path"),
            (" /var/log/vms/a", "not an absolute path"),
            ("file:///var/log/vms/a", "not an absolute path"),
            ("/var/log/vms/a\0b", "unprintable"),
            ("/var/log/vms/a\nb", "unprintable"),
            ("/var/log/vms/\u{202e}a", "unprintable"),
            ("/VAR/log/vms/a", "is not below"),
        ],
    );
    let long = format!("/var/log/vms/{}", "a".repeat(4096));
    check(r#""below": "/var/log/vms""#, &[], &[(&long, "4109 bytes")]);
    check(
        r#""below": "/""#,
        &["/a"],
        &[("/", "`/` at the end"), ("a", "not an absolute path")],
    );
}

#[test]
fn one_of_compares_whole_values() {
    check(
        r#""one-of": ["none", "io_uring", ""]"#,
        &["none", "io_uring", ""],
        &[
            (
                "None",
                "\"None\" is not one of \"none\", \"io_uring\", \"\"",
            ),
            (" none", "not one of"),
            ("none\n", "not one of"),
            ("non", "not one of"),
        ],
    );
}

#[test]
fn matches_describes_whole_values() {
    check(
        r#""matches": "[a-z]+|ab9""#,
        &["abc", "ab9"],
        &[
            (
                "ab9x",
                "does not as a whole match the expression \"[a-z]+|ab9\"",
            ),
            ("9ab9", "does not as a whole match"),
            ("abc\n", "does not as a whole match"),
            ("\nabc", "does not as a whole match"),
            ("abc\ndef", "does not as a whole match"),
            ("", "does not as a whole match"),
        ],
    );
    // Neither lines nor options of the expression move the ends.
    check(
        r#""matches": "(?m)^abc$""#,
        &["abc"],
        &[("x\nabc\nx", "does not"), ("abc\n", "does not")],
    );
    check(r#""matches": "(?i)abc""#, &["aBc"], &[("abcd", "does not")]);
    check(r#""matches": "\\d+""#, &["123"], &[("\u{663}", "does not")]);
    check(r#""matches": "(?i)k""#, &["K"], &[("\u{212a}", "does not")]);
    check(r#""matches": """#, &[""], &[("a", "does not")]);
    check(r#""matches": "ä+""#, &["ää"], &[("a", "does not")]);
}

#[test]
fn an_expression_takes_time_by_the_length_of_the_value() {
    let condition = condition(r#""matches": "(a*)*(a|a)*(aa|a){0,40}b""#);
    let value = "a".repeat(MAX_VALUE_BYTES);
    let start = Instant::now();
    for _ in 0..16 {
        assert!(condition.unmet(&value).is_some());
    }
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn at_most_reads_decimal_digits_and_nothing_else() {
    check(
        r#""at-most": 10"#,
        &["0", "9", "10"],
        &[
            ("11", "11 is more than 10"),
            ("18446744073709551615", "is more than 10"),
            ("18446744073709551616", "is not a number"),
            ("99999999999999999999999", "is not a number"),
            ("-1", "is not a number"),
            ("+1", "is not a number"),
            ("-0", "is not a number"),
            ("", "is not a number"),
            (" 1", "is not a number"),
            ("1 ", "is not a number"),
            ("1\n", "is not a number"),
            ("01", "is not a number"),
            ("00", "is not a number"),
            ("0x1", "is not a number"),
            ("1e1", "is not a number"),
            ("1.0", "is not a number"),
            ("1_0", "is not a number"),
            ("1KiB", "is not a number"),
            ("1 k", "is not a number"),
            ("\u{661}", "is not a number"),
        ],
    );
}

#[test]
fn all_conditions_of_a_path_must_hold() {
    check(
        r#""below": "/var/log", "matches": ".*\\.log""#,
        &["/var/log/a.log"],
        &[
            ("/var/log/a", "does not as a whole match"),
            ("/etc/a.log", "is not below"),
        ],
    );
}

#[test]
fn conditions_exclude_each_other_only_if_no_value_meets_both() {
    for (one, other, expected) in [
        (r#""below": "/a""#, r#""below": "/b""#, true),
        (r#""below": "/a""#, r#""below": "/ab""#, true),
        (r#""below": "/a""#, r#""below": "/a/b""#, false),
        (r#""below": "/a""#, r#""below": "/""#, false),
        (r#""below": "/a""#, r#""matches": ".*""#, false),
        (r#""below": "/a""#, r#""one-of": ["/b/c", "/d"]"#, true),
        (r#""below": "/a""#, r#""one-of": ["/b/c", "/a/d"]"#, false),
        (r#""one-of": ["a", "b"]"#, r#""one-of": ["c"]"#, true),
        (r#""one-of": ["a", "b"]"#, r#""one-of": ["b", "c"]"#, false),
        (r#""one-of": ["11"]"#, r#""at-most": 10"#, true),
        (r#""one-of": ["9"]"#, r#""at-most": 10"#, false),
        (r#""at-most": 1"#, r#""at-most": 10"#, false),
        (r#""one-of": ["a"]"#, r#""matches": "b""#, true),
    ] {
        let (first, second) = (condition(one), condition(other));
        assert_eq!(first.excludes(&second), expected, "{one} {other}");
        assert_eq!(second.excludes(&first), expected, "{other} {one}");
    }
}

#[test]
fn many_of_the_largest_expressions_are_compiled_in_time() {
    let start = Instant::now();
    for _ in 0..256 {
        let _ = condition(r#""matches": "([^a]{1,9}[^b]{1,9}[^c]{1,9}){1,9}""#);
    }
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "{:?}",
        start.elapsed()
    );
}
