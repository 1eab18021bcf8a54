//! What users build on (docs/stability.md) does not vanish unannounced: everything that `tests/fixtures/public-surface.txt` lists, the
//! surface of the last release, is still there, or the changelog's section of the next release names it.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use regex::Regex;
use serde_json::Value;
use tests::binaries::{binary, workspace};

const SNAPSHOT: &str = "tests/fixtures/public-surface.txt";

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap()
}

/// The first group of each match.
fn matches<'t>(pattern: &str, text: &'t str) -> Vec<&'t str> {
    let pattern = Regex::new(pattern).unwrap();
    let found = pattern.captures_iter(text);
    found.map(|found| found.get(1).unwrap().as_str()).collect()
}

fn help(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(binary(program).unwrap())
        .args(arguments)
        .arg("--help")
        .output()
        .unwrap();
    assert!(output.status.success(), "{program} {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The long options and, of `virt-hook`, the verbs.
fn flags(surface: &mut BTreeSet<String>) {
    let mut add = |program: &str, verb: &[&str]| {
        let text = help(program, verb);
        let of = [&[program], verb].concat().join(" ");
        for flag in matches(r"(?m)^ +(?:-\w, )?(--[a-z][a-z0-9-]*)", &text) {
            surface.insert(format!("flag {of} {flag}"));
        }
        let verbs = text.split("\nCommands:\n").nth(1).unwrap_or_default();
        let verbs = verbs.split("\n\n").next().unwrap_or_default();
        let verbs = matches(r"(?m)^  ([a-z-]+) ", verbs);
        verbs.into_iter().map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    add("virt-launcher", &[]);
    add("virt-launcher-monitor", &[]);
    for verb in add("virt-hook", &[]) {
        if verb == "help" {
            continue;
        }
        for inner in add("virt-hook", &[&verb]) {
            if inner != "help" {
                add("virt-hook", &[&verb, &inner]);
            }
        }
    }
}

/// The variables that the programs read, as the sources name them.
fn environment(surface: &mut BTreeSet<String>) {
    let mut directories = vec![workspace().join("src")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(path).unwrap();
                for name in matches(
                    r#""((?:VIRT_LAUNCHER|VIRT_HOOK)_[A-Z_]+|STANDALONE_VMI|SHARED_FILESYSTEM_PATHS)""#,
                    &text,
                ) {
                    if !name.contains("TEST") {
                        surface.insert(format!("environment {name}"));
                    }
                }
            }
        }
    }
}

/// The names of the properties of a JSON schema, by the path that leads to them.
fn schema_properties(value: &Value, of: &str, surface: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if name == "properties" {
                    for property in member.as_object().unwrap().keys() {
                        surface.insert(format!("{of} {property}"));
                    }
                }
                schema_properties(member, of, surface);
            }
        }
        Value::Array(members) => members
            .iter()
            .for_each(|member| schema_properties(member, of, surface)),
        _ => {}
    }
}

fn surface() -> BTreeSet<String> {
    let mut surface = BTreeSet::new();
    flags(&mut surface);
    environment(&mut surface);
    for name in ["hook-yaml", "hook-policy", "hook-description"] {
        let schema = serde_json::from_str(&read(&format!("docs/{name}.schema.json"))).unwrap();
        schema_properties(&schema, name, &mut surface);
    }
    let monitoring = read("docs/monitoring.md");
    for name in matches(
        r"(?m)^\| `([A-Z][A-Za-z]+)` \| (?:Normal|Warning) \|",
        &monitoring,
    ) {
        surface.insert(format!("event {name}"));
    }
    for name in matches(
        r"\b(virt_hook_[a-z_]+)",
        &(read("docs/serve.md") + &monitoring),
    ) {
        surface.insert(format!("metric {name}"));
    }
    let reference = read("docs/virt-hook.md");
    let exit_codes = reference.split("### Exit codes").nth(1).unwrap();
    for code in matches(r"(?m)^\| (\d) \|", exit_codes.split("###").next().unwrap()) {
        surface.insert(format!("exit code {code}"));
    }
    for section in reference.split("\n## ").skip(1) {
        let verb = section.lines().next().unwrap();
        for results in matches(r"(?m)^(`result`: .*(?:\n[^\n#|`].*)*)", section) {
            for member in matches(r"`([A-Za-z]+)(?:\[\])?`", results) {
                surface.insert(format!("JSON of {verb}: {member}"));
            }
        }
    }
    for (file, version) in [("v0.1/hooks.wit", "0.1"), ("v0.1.1/optional.wit", "0.1.1")] {
        for name in matches(
            r"(?m)^ +([a-z][a-z0-9-]*): ",
            &read(&format!("hooks-sdk/wit/{file}")),
        ) {
            surface.insert(format!("WIT {version} {name}"));
        }
    }
    surface
}

#[test]
fn what_a_release_had_is_there_or_the_changelog_announces_its_end() {
    let surface = surface();
    let lines: Vec<_> = surface.iter().map(String::as_str).collect();
    if std::env::var_os("WRITE_SURFACE").is_some() {
        fs::write(workspace().join(SNAPSHOT), lines.join("\n") + "\n").unwrap();
    }
    let changelog = read("CHANGELOG.md");
    let next = changelog.split("\n## [Unreleased]").nth(1).unwrap();
    let next = next.split("\n## [").next().unwrap();
    let ended: String = next
        .split("\n### ")
        .filter(|section| section.starts_with("Removed") || section.starts_with("Changed"))
        .collect();
    let snapshot = read(SNAPSHOT);
    let unannounced: Vec<_> = snapshot
        .lines()
        .filter(|line| !surface.contains(*line))
        .filter(|line| !ended.contains(&format!("`{}`", line.rsplit(' ').next().unwrap())))
        .collect();
    assert!(
        unannounced.is_empty(),
        "gone without a word in CHANGELOG.md, section [Unreleased], Changed or Removed: {unannounced:#?}"
    );
}

#[test]
fn each_kind_of_surface_is_found() {
    let surface = surface();
    for line in [
        "flag virt-launcher --hook-sidecars",
        "flag virt-hook policy check --module",
        "environment VIRT_LAUNCHER_HOOK_POLICY",
        "hook-policy allow",
        "hook-yaml failurePolicy",
        "event HookDenied",
        "metric virt_hook_calls_total",
        "exit code 4",
        "JSON of deploy: manifests",
        "WIT 0.1 describe",
    ] {
        assert!(surface.contains(line), "{line} is not found");
    }
}
