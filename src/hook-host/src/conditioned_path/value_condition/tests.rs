//! Values that meet each condition, and values that do not.

use std::time::{Duration, Instant};

use super::*;

fn condition(fields: &str) -> ValueCondition {
    let json = format!(r#"{{"path": "/domain/devices/serial/log/@file", {fields}}}"#);
    let path: crate::ConditionedPath = serde_json::from_str(&json).unwrap();
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
