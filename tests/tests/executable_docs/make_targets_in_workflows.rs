//! Checks that the targets of the Makefile exist that the workflows run or name.

use std::collections::BTreeSet;
use std::fs;

use tests::binaries::workspace;

/// The targets that a line of a workflow names after `make`, or in a matrix of targets.
fn named_targets(line: &str) -> Vec<&str> {
    let is_word = |text: &&str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    if let Some((_, list)) = line.split_once("target: [") {
        let list = list.trim_end().trim_end_matches(']');
        return list.split(',').map(str::trim).filter(is_word).collect();
    }
    // In such a line, make is a package.
    if line.contains("apt-get") {
        return Vec::new();
    }
    let after = line.split("make ").skip(1);
    let words = after.filter_map(|rest| rest.split([' ', '`', ',']).next());
    words.filter(is_word).collect()
}

#[test]
fn targets_are_found_in_commands_comments_and_matrices() {
    assert_eq!(named_targets("      - run: make dist DIST=dist"), ["dist"]);
    assert_eq!(
        named_targets("# Also: `make test`, `make test-faults`."),
        ["test", "test-faults"]
    );
    assert_eq!(
        named_targets("        target: [deny, doc]"),
        ["deny", "doc"]
    );
    assert_eq!(
        named_targets("      - run: apt-get install git make nodejs"),
        [""; 0]
    );
    assert_eq!(
        named_targets("      - run: make ${{ matrix.target }}"),
        [""; 0]
    );
}

#[test]
fn every_make_target_in_the_workflows_exists() {
    let makefile = fs::read_to_string(workspace().join("Makefile")).unwrap();
    let rules = makefile.lines().filter_map(|line| line.split_once(':'));
    let targets: BTreeSet<&str> = rules.map(|(target, _)| target).collect();
    let mut checked = 0;
    for entry in fs::read_dir(workspace().join(".github/workflows")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with("# "),
            "{}: no comment says what runs only here",
            path.display()
        );
        for name in text.lines().flat_map(named_targets) {
            let path = path.display();
            assert!(
                targets.contains(name),
                "{path}: the Makefile has no target {name}"
            );
            checked += 1;
        }
    }
    assert!(checked > 15, "{checked}");
}
