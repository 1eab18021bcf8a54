use std::fs;
use std::os::unix::fs::symlink;

use super::super::read_policy_file::text_at;
use super::*;

#[test]
fn links_are_followed_within_the_directory_only() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("inner");
    fs::create_dir_all(inner.join("..data")).unwrap();
    fs::write(inner.join("..data/p.yaml"), "a: 1").unwrap();
    fs::write(dir.path().join("out.yaml"), "a: 2").unwrap();
    symlink("..data/p.yaml", inner.join("in.yaml")).unwrap();
    symlink("../out.yaml", inner.join("out.yaml")).unwrap();
    symlink("nothing", inner.join("gone.yaml")).unwrap();
    let text = |name: &str| text_at(&inner.join(name));
    assert_eq!(text("in.yaml").unwrap().unwrap(), "a: 1");
    assert_eq!(text("none.yaml").unwrap(), None);
    let error = text("out.yaml").unwrap_err().to_string();
    assert!(error.contains("inner/out.yaml") && error.contains("within the directory"));
    assert!(text("gone.yaml").is_err());
    assert!(text("..data").is_err());
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        inner.join("pipe.yaml"),
        rustix::fs::Mode::RUSR,
    )
    .unwrap();
    let error = text("pipe.yaml").unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
}

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
        assert!(
            error.contains(part) && !error.contains("breached"),
            "{error}"
        );
    }
    assert_eq!(parse("- x\n").unwrap(), ["x"]);
}

/// Not those of the parser, which are for programmers.
#[test]
fn errors_are_in_plain_words() {
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
fn large_and_non_utf8_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.yaml");
    fs::write(&path, "#".repeat(300 << 10)).unwrap();
    assert!(
        text_at(&path)
            .unwrap_err()
            .to_string()
            .contains("262144 bytes")
    );
    fs::write(&path, b"\xff\xfe\xff").unwrap();
    assert!(text_at(&path).is_err());
}
