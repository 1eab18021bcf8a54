//! Adding items to lists.

use super::*;

fn item() -> Value {
    json!(["touch", "/x"])
}

fn added(text: &str) -> Result<String, CloudInitError> {
    let mut yaml = Yaml::new(text);
    yaml.add_json("runcmd", &item())?;
    let once = yaml.render();
    yaml.add_json("runcmd", &item())?;
    assert_eq!(yaml.render(), once, "adding twice adds once");
    Ok(once)
}

#[test]
fn item_is_appended_and_other_lines_are_unchanged() {
    let before = "#cloud-config\n# mine\nruncmd:   # now\n  # first\n  - [a, b]\n  - |\n    #!/bin/sh\n    # last\n\n# the password\npassword: fedora\n";
    assert_eq!(
        added(before).unwrap(),
        before.replace("    # last\n", "    # last\n  - [\"touch\",\"/x\"]\n")
    );
}

#[test]
fn a_missing_list_is_added_at_the_end() {
    let expected = "runcmd:\n  - [\"touch\",\"/x\"]\n";
    assert_eq!(added("").unwrap(), expected);
    assert_eq!(
        added("#cloud-config\npassword: x").unwrap(),
        format!("#cloud-config\npassword: x\n{expected}")
    );
    assert_eq!(
        added("#cloud-config\n---\na: 1\n").unwrap(),
        format!("#cloud-config\n---\na: 1\n{expected}")
    );
}

#[test]
fn every_way_to_write_a_list_takes_an_item() {
    for (before, after) in [
        ("runcmd: [a]\n", "runcmd: [a, [\"touch\",\"/x\"]]\n"),
        (
            "runcmd: [ ]  # none\n",
            "runcmd: [ [\"touch\",\"/x\"]]  # none\n",
        ),
        (
            "runcmd: ['it''s ]', \"a\\\"]\"] # ]\n",
            "runcmd: ['it''s ]', \"a\\\"]\", [\"touch\",\"/x\"]] # ]\n",
        ),
        (
            "runcmd:\n- a\nx: 1\n",
            "runcmd:\n- a\n- [\"touch\",\"/x\"]\nx: 1\n",
        ),
        ("runcmd:\nx: 1\n", "runcmd:\n  - [\"touch\",\"/x\"]\nx: 1\n"),
        (
            "\"runcmd\" :\n    - a\n",
            "\"runcmd\" :\n    - a\n    - [\"touch\",\"/x\"]\n",
        ),
    ] {
        assert_eq!(
            added(&format!("#cloud-config\n{before}")).unwrap(),
            format!("#cloud-config\n{after}")
        );
    }
    assert_eq!(
        added("#cloud-config\r\nruncmd:\r\n  - a\r\n").unwrap(),
        "#cloud-config\r\nruncmd:\r\n  - a\r\n  - [\"touch\",\"/x\"]\r\n"
    );
}

#[test]
fn existing_item_is_distinguished_from_one_that_contains_it() {
    for (before, item, after) in [
        ("[8080]", json!(80), "[8080, 80]"),
        ("[80]", json!(80), "[80]"),
        ("[80]", json!("80"), "[80, \"80\"]"),
        ("[vim]", json!("vim"), "[vim]"),
        ("['vim', x]", json!("vim"), "['vim', x]"),
        ("[vim-nox]", json!("vim"), "[vim-nox, \"vim\"]"),
        ("[[a, b]]", json!("a"), "[[a, b], \"a\"]"),
        ("[{a: b}]", json!("b"), "[{a: b}, \"b\"]"),
        ("['a, b']", json!("b"), "['a, b', \"b\"]"),
        ("[a] # b", json!("b"), "[a, \"b\"] # b"),
        ("\n  - vim # mine", json!("vim"), "\n  - vim # mine"),
        ("\n  - 8080", json!(80), "\n  - 8080\n  - 80"),
        (
            "\n  - vim: 1",
            json!("vim: 1"),
            "\n  - vim: 1\n  - \"vim: 1\"",
        ),
        ("\n  - - vim", json!("vim"), "\n  - - vim\n  - \"vim\""),
        (
            "\n  - restart\n\n    sshd",
            json!("restart"),
            "\n  - restart\n\n    sshd\n  - \"restart\"",
        ),
        ("\n  - a\n    # b", json!("a"), "\n  - a\n    # b"),
        ("[a, b,]", json!("c"), "[a, b, \"c\"]"),
    ] {
        let mut yaml = Yaml::new(&format!("list: {before}\n"));
        for _ in 0..2 {
            yaml.add_json("list", &item).unwrap();
            assert_eq!(yaml.render(), format!("list: {after}\n"), "{before}");
        }
    }
}

#[test]
fn what_cannot_take_an_item_safely_is_refused() {
    for bad in [
        "runcmd: x",
        "runcmd: &a\n  - b",
        "runcmd: [a,\n  b]",
        "runcmd: |\n  x",
        "runcmd:\n  a: b",
        "runcmd: {a: b}",
        "{a: b}",
        "a: 1\n---\nb: 1",
        "runcmd: [a] b",
        "runcmd:\n  - a\n b",
    ] {
        let error = added(&format!("#cloud-config\n{bad}\n")).unwrap_err();
        assert!(
            matches!(
                error,
                CloudInitError::NotAList { .. } | CloudInitError::NotAMapping { .. }
            ),
            "{bad}: {error}"
        );
    }
    assert!(matches!(
        added("#cloud-config\nruncmd:\nruncmd:\n"),
        Err(CloudInitError::Ambiguous { .. })
    ));
}
