//! Every script in `scripts/` answers `--help` and refuses arguments that it does not know, before it does anything.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use regex::Regex;
use tests::binaries::workspace;

/// The programs that answering needs. Without others, a script that starts its work ends at once.
const PROGRAMS: [&str; 5] = ["sh", "sed", "dirname", "basename", "env"];

/// Variables that the scripts read from a file, or that each program has.
const NOT_OF_USERS: [&str; 5] = ["ID", "VERSION_CODENAME", "PATH", "HOME", "TMPDIR"];

fn scripts() -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace().join("scripts")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    // A link is another name of a script, for callers outside of this project.
    let mut found: Vec<_> = paths
        .filter(|path| path.is_file() && !path.is_symlink())
        .collect();
    found.sort();
    assert!(found.len() > 15, "{found:?}");
    found
}

fn name(script: &Path) -> &str {
    script.file_name().unwrap().to_str().unwrap()
}

/// Runs a script where it can do nothing but answer.
fn run(script: &Path, argument: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let bin = directory.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    for program in PROGRAMS {
        let mut all = std::env::split_paths(&path).map(|directory| directory.join(program));
        symlink(all.find(|file| file.is_file()).unwrap(), bin.join(program)).unwrap();
    }
    // Python may need more programs to start, and the script in it starts none before it has read its arguments.
    let source = fs::read_to_string(script).unwrap();
    let is_python = source.starts_with("#!/usr/bin/env python3");
    let path = if is_python { path } else { bin.into() };
    Command::new(script)
        .arg(argument)
        .env_clear()
        .env("PATH", path)
        .env("HOME", directory.path())
        .env("CARGO_HOME", directory.path().join("cargo"))
        .env("CARGO_TARGET_DIR", directory.path().join("target"))
        .current_dir(directory.path())
        .output()
        .unwrap()
}

#[test]
fn help_has_the_usage_and_what_is_left() {
    for script in scripts() {
        let name = name(&script);
        let long = run(&script, "--help");
        let text = String::from_utf8(long.stdout.clone()).unwrap();
        assert!(long.status.success(), "{name}: {long:?}");
        let usage = Regex::new(&format!(r"(?m)^  ([A-Z_]+=[A-Z]+ )*scripts/{name}( |$)")).unwrap();
        assert!(usage.is_match(&text), "{name}: no usage in {text}");
        assert!(text.contains("Leaves"), "{name}: {text}");
        // The text ends before the code begins.
        assert!(!text.contains("set -eu"), "{name}: {text}");
        let short = run(&script, "-h");
        assert_eq!(
            (short.status, short.stdout),
            (long.status, long.stdout),
            "{name}"
        );
    }
}

#[test]
fn help_names_the_variables_that_a_script_reads() {
    let in_shell = Regex::new(r"\$\{([A-Z][A-Z_]+):?[-?+]").unwrap();
    let in_python =
        Regex::new(r#"(?:environ(?:\.get)?[(\[]|directory\()"([A-Z][A-Z_]+)""#).unwrap();
    let mut named = 0;
    for script in scripts() {
        let source = fs::read_to_string(&script).unwrap();
        let text = String::from_utf8(run(&script, "--help").stdout).unwrap();
        let found = in_shell
            .captures_iter(&source)
            .chain(in_python.captures_iter(&source));
        for variable in found.map(|found| found[1].to_owned()) {
            if NOT_OF_USERS.contains(&variable.as_str()) {
                continue;
            }
            let word = Regex::new(&format!(r"\b{variable}\b")).unwrap();
            assert!(
                word.is_match(&text),
                "{}: no {variable} in {text}",
                name(&script)
            );
            named += 1;
        }
    }
    assert!(named > 30, "{named}");
}

#[test]
fn unknown_options_are_refused() {
    for script in scripts() {
        let name = name(&script);
        let output = run(&script, "--no-such-option");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{name}: {error}");
        assert!(error.contains("--no-such-option"), "{name}: {error}");
        assert!(
            error.contains(&format!("scripts/{name} --help")),
            "{name}: {error}"
        );
        assert!(output.stdout.is_empty(), "{name}");
    }
}

/// Scripts whose arguments are names of the caller's: of files, tests or tags.
const TAKE_NAMES: [&str; 6] = [
    "build-launcher-image",
    "check-release-tag",
    "dist",
    "test-apiserver",
    "test-faults",
    "test-sigstore",
];

#[test]
fn unknown_words_are_refused() {
    for script in scripts() {
        let name = name(&script);
        if TAKE_NAMES.contains(&name) {
            continue;
        }
        let output = run(&script, "no-such-word");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{name}: {error}");
        assert!(error.contains("no-such-word"), "{name}: {error}");
    }
}
