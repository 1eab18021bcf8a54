//! Limits of YAML documents, and the texts of errors.

use super::*;

#[test]
fn nesting_and_aliases_are_limited() {
    let parse = |text: &str| parse::<Vec<String>>(Path::new("p.yaml"), text);
    assert!(parse(&"[".repeat(100_000)).is_err());
    assert!(parse(&"- ".repeat(100_000)).is_err());
    for (text, part) in [
        ("- &a x\n- *a\n", "anchors and aliases"),
        ("- x\n---\n- y\n", "document"),
        (
            &format!("{}x{}", "[".repeat(20), "]".repeat(20)),
            "16 levels",
        ),
        (&"- x\n".repeat(20_001), "20000 values"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        // "breached" is the YAML parser's word for a limit that is exceeded.
        assert!(
            error.contains(part) && !error.contains("breached"),
            "{error}"
        );
    }
    assert_eq!(parse("- x\n").unwrap(), ["x"]);
}

/// The parser's own messages name Rust types and options of the parser.
#[test]
fn errors_do_not_contain_the_parsers_terms() {
    type Numbers = std::collections::BTreeMap<String, i32>;
    for (text, reason) in [
        ("a: x\n", "p.yaml:1:4: a: a whole number is wanted"),
        (
            "a: 1\nb: 99999999999\n",
            "p.yaml:2:4: b: a whole number is wanted",
        ),
        ("a: 1\na: 2\n", "p.yaml:2:1: the key a is repeated"),
        ("<<: {a: 1}\n", "merge keys are not accepted"),
        ("7\n", "keys with values are wanted"),
        ("a:\n", "a value is missing: [] is an empty list"),
    ] {
        let error = parse::<Numbers>(Path::new("p.yaml"), text)
            .unwrap_err()
            .to_string();
        assert!(error.contains(reason), "{text}: {error}");
        assert!(
            !error.contains("i32") && !error.contains("Policy"),
            "{error}"
        );
    }
}

#[test]
fn error_contains_the_key_of_the_value() {
    for (before, start) in [
        ("priority: ", "priority: a whole number"),
        ("  a: {b: 1, priority: ", "priority: a whole number"),
        ("- ", "a whole number"),
        ("", "a whole number"),
    ] {
        let message = plain_message("invalid i32", before);
        assert!(message.starts_with(start), "{before}: {message}");
    }
}
