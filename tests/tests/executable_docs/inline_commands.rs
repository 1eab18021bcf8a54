//! Checks commands in the text of the pages and in the comments of `deploy/`. They are not run, but their verbs, flags,
//! targets and files must exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use tests::binaries::workspace;

use crate::kubectl_command_checks::check_kubectl_flags;
use crate::page_blocks::{page, pages, source};
use crate::shell_script_splitter::commands;
use crate::virt_hook_commands::check_verbs_and_flags;

/// Pages without commands in blocks, and the pages in the templates of `virt-hook new`.
const OTHER_PAGES: [&str; 7] = [
    "ARCHITECTURE.md",
    "SECURITY.md",
    "src/virt-hook/templates/c/README.md",
    "src/virt-hook/templates/go/README.md",
    "src/virt-hook/templates/python/README.md",
    "src/virt-hook/templates/rust/README.md",
    "src/virt-hook/templates/rust-workspace/README.md",
];
/// The Makefiles of this project and of the templates of `virt-hook new`.
const MAKEFILES: [&str; 6] = [
    "Makefile",
    "src/virt-hook/templates/c/sdk/hook.mk",
    "src/virt-hook/templates/go/sdk/hook.mk",
    "src/virt-hook/templates/python/sdk/hook.mk",
    "src/virt-hook/templates/rust/Makefile",
    "src/virt-hook/templates/rust-workspace/Makefile",
];
/// Programs whose commands are checked if they have an argument.
const CHECKED_PROGRAMS: [&str; 3] = ["cosign", "kubectl", "make"];

/// Other programs, and the number of their commands, which nothing checks.
const UNCHECKED_COUNTS: [(&str, usize); 9] = [
    ("cargo", 13),
    ("docker", 1),
    ("go", 3),
    ("pip", 1),
    ("podman", 4),
    ("skopeo", 1),
    ("systemctl", 1),
    ("virsh", 3),
    ("virtctl", 2),
];

fn check_command(location: &str, words: &[String]) {
    let location = format!("{location}: {}", words.join(" "));
    let (program, rest) = words.split_first().unwrap();
    for file in rest.iter().filter(|word| word.starts_with("deploy/")) {
        assert!(
            workspace().join(file).exists(),
            "{location}: there is no {file}"
        );
    }
    match program.as_str() {
        "make" => check_make_targets(&location, rest),
        "kubectl" => {
            let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
            check_kubectl_flags(&location, &rest);
        }
        "cosign" => {
            let script = source("scripts/test-sigstore");
            let flags = rest.iter().filter(|word| word.starts_with("--"));
            for word in flags.chain(rest.first()) {
                assert!(
                    script.contains(word.as_str()),
                    "{location}: the script does not run {word}"
                );
            }
        }
        "scripts/NAME" => {}
        script => assert!(workspace().join(script).exists(), "{location}"),
    }
}

fn check_make_targets(location: &str, words: &[String]) {
    static TARGETS: LazyLock<BTreeSet<String>> =
        LazyLock::new(|| makefile_targets(&MAKEFILES.map(source).concat()));
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-C" => {
                words.next();
            }
            word if word.contains('=') => {}
            word => assert!(
                TARGETS.contains(word),
                "{location}: no Makefile has the target {word}"
            ),
        }
    }
}

/// The targets of the rules in a Makefile.
fn makefile_targets(makefile: &str) -> BTreeSet<String> {
    let rules = makefile
        .lines()
        .filter(|line| !line.starts_with(['\t', ' ', '#', '.']));
    let rules = rules.filter_map(|line| line.split_once(':'));
    let rules = rules.filter(|(_, rest)| !rest.starts_with('='));
    let names = rules.flat_map(|(names, _)| names.split_whitespace());
    names.map(str::to_owned).collect()
}

/// The inline code and the indented code in the comments of a file.
fn code_in_comments(file: &str) -> Vec<String> {
    let text = source(file);
    let lines = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix('#'));
    let lines: Vec<&str> = lines.collect();
    let indented = lines.iter().filter(|line| line.starts_with("   "));
    let indented = indented.map(|line| line.trim().to_owned());
    let joined = lines.join(" ");
    let inline = joined.split('`').skip(1).step_by(2).map(str::to_owned);
    indented.chain(inline).collect()
}

fn add_files(directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_files(&path, found);
        } else {
            let file = path.strip_prefix(workspace()).unwrap();
            found.push(file.to_str().unwrap().to_owned());
        }
    }
}

#[test]
fn commands_in_the_text_have_existing_verbs_flags_targets_and_files() {
    let mut found: Vec<(String, String)> = Vec::new();
    for path in pages().into_iter().chain(OTHER_PAGES.map(str::to_owned)) {
        let page = page(&path);
        found.extend(
            page.code()
                .map(|code| (path.clone(), code.replace('\n', " "))),
        );
        if OTHER_PAGES.contains(&path.as_str()) {
            let blocks = page.blocks.iter().filter(|block| block.language == "sh");
            found.extend(blocks.map(|block| (path.clone(), block.text.clone())));
            for (path, text) in found.iter().filter(|(location, _)| *location == path) {
                check_verbs_and_flags(path, text);
            }
        }
    }
    let mut files = Vec::new();
    add_files(&workspace().join("deploy"), &mut files);
    for file in files {
        let code = code_in_comments(&file);
        found.extend(code.into_iter().map(|code| (file.clone(), code)));
    }
    let (mut checked, mut unchecked) = (0, UNCHECKED_COUNTS.map(|(name, _)| (name, 0)));
    for (location, text) in &found {
        for words in &commands(text) {
            let program = words[0].as_str();
            let is_script = program.starts_with("scripts/");
            // A program's name alone is not a command.
            if words.len() == 1 && !is_script {
                continue;
            }
            if CHECKED_PROGRAMS.contains(&program) || is_script {
                check_command(location, words);
                checked += 1;
            }
            let other = unchecked.iter_mut().find(|(name, _)| *name == program);
            if let Some((_, number)) = other {
                *number += 1;
            }
        }
    }
    assert!(checked > 80, "{checked}");
    assert_eq!(unchecked, UNCHECKED_COUNTS);
}

#[test]
fn targets_of_a_makefile_are_found() {
    let makefile =
        "A := x\nB ?= y\n.PHONY: none\n# no: target\nall: b\n\techo c: d\nb b2: ## help\n";
    let found = makefile_targets(makefile);
    assert_eq!(found.iter().collect::<Vec<_>>(), ["all", "b", "b2"]);
}
