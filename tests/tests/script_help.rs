//! Every script in `scripts/` answers `--help` and refuses arguments that it does not know, before it does anything.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use regex::Regex;
use tests::binaries::workspace;

/// The programs that a script needs to print its help. A script that starts its work fails, since it lacks all others.
const PROGRAMS: [&str; 5] = ["sh", "sed", "dirname", "basename", "env"];

/// Variables that the scripts read from a file, or that every process has.
const NOT_SET_BY_USERS: [&str; 5] = ["ID", "VERSION_CODENAME", "PATH", "HOME", "TMPDIR"];

fn scripts() -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace().join("scripts")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    // A symbolic link is another name of a script, for callers outside of this project.
    let mut scripts: Vec<_> = paths
        .filter(|path| path.is_file() && !path.is_symlink())
        .collect();
    scripts.sort();
    assert!(scripts.len() > 15, "{scripts:?}");
    scripts
}

fn name(script: &Path) -> &str {
    script.file_name().unwrap().to_str().unwrap()
}

/// Runs a script in an environment in which it can only print its help or an error.
fn run(script: &Path, argument: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let bin = directory.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    for program in PROGRAMS {
        let mut all = std::env::split_paths(&path).map(|directory| directory.join(program));
        symlink(all.find(|file| file.is_file()).unwrap(), bin.join(program)).unwrap();
    }
    // Python may need more programs to start. A script in Python starts no program before it has read its arguments.
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
fn help_states_the_usage_and_the_files_left_behind() {
    for script in scripts() {
        let name = name(&script);
        let long_option = run(&script, "--help");
        let text = String::from_utf8(long_option.stdout.clone()).unwrap();
        assert!(long_option.status.success(), "{name}: {long_option:?}");
        let usage = Regex::new(&format!(r"(?m)^  ([A-Z_]+=[A-Z]+ )*scripts/{name}( |$)")).unwrap();
        assert!(usage.is_match(&text), "{name}: no usage in {text}");
        assert!(text.contains("Leaves"), "{name}: {text}");
        // The text ends before the code begins.
        assert!(!text.contains("set -eu"), "{name}: {text}");
        let short_option = run(&script, "-h");
        assert_eq!(
            (short_option.status, short_option.stdout),
            (long_option.status, long_option.stdout),
            "{name}"
        );
    }
}

#[test]
fn help_names_the_variables_that_a_script_reads() {
    let in_shell = Regex::new(r"\$\{([A-Z][A-Z_]+):?[-?+]").unwrap();
    let in_python =
        Regex::new(r#"(?:environ(?:\.get)?[(\[]|directory\()"([A-Z][A-Z_]+)""#).unwrap();
    let mut variable_count = 0;
    for script in scripts() {
        let source = fs::read_to_string(&script).unwrap();
        let text = String::from_utf8(run(&script, "--help").stdout).unwrap();
        let variables = in_shell
            .captures_iter(&source)
            .chain(in_python.captures_iter(&source));
        for variable in variables.map(|captures| captures[1].to_owned()) {
            if NOT_SET_BY_USERS.contains(&variable.as_str()) {
                continue;
            }
            let word = Regex::new(&format!(r"\b{variable}\b")).unwrap();
            assert!(
                word.is_match(&text),
                "{}: no {variable} in {text}",
                name(&script)
            );
            variable_count += 1;
        }
    }
    assert!(variable_count > 30, "{variable_count}");
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

/// Scripts whose arguments are names that the caller chooses: of files, tests, tags or packages.
const SCRIPTS_WITH_FREE_ARGUMENTS: [&str; 9] = [
    "build-launcher-image",
    "check-release-tag",
    "dist",
    "release",
    "test-apiserver",
    "test-faults",
    "test-release",
    "test-sigstore",
    "third-party-licences",
];

#[test]
fn unknown_words_are_refused() {
    for script in scripts() {
        let name = name(&script);
        if SCRIPTS_WITH_FREE_ARGUMENTS.contains(&name) {
            continue;
        }
        let output = run(&script, "no-such-word");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{name}: {error}");
        assert!(error.contains("no-such-word"), "{name}: {error}");
    }
}
