//! `doctor` and `man`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{ProgramOutput, program, text, virt_hook};

#[test]
fn doctor_reports_found_tools_and_remedies_for_missing_ones() {
    let report = virt_hook(&["doctor", "--json"]).json();
    let tools = report["result"]["tools"].as_array().unwrap();
    for feature in ["Landlock", "seccomp"] {
        assert!(
            tools.iter().any(|tool| tool["name"] == feature),
            "{report:#}"
        );
    }
    let languages = report["result"]["languages"].to_string();
    assert!(languages.contains("Rust"), "{report:#}");
    let mut without_tools = program();
    without_tools.arg("doctor").env("PATH", "/nonexistent");
    let output_without_tools = ProgramOutput::from(without_tools.output().unwrap());
    assert_eq!(
        output_without_tools.code, 1,
        "{}{}",
        output_without_tools.out, output_without_tools.err
    );
    assert!(
        output_without_tools
            .out
            .contains("missing  wasm32-wasip2: rustup target add wasm32-wasip2")
            && output_without_tools
                .out
                .contains("Hooks can be written in no language."),
        "{}",
        output_without_tools.out
    );
}

/// `make` tries to run the first entry of this name in PATH; for a directory it fails with "Permission denied".
#[test]
fn doctor_reports_a_directory_that_shadows_a_program() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (bin, first) = (temp_dir.path().join("bin"), temp_dir.path().join("first"));
    fs::create_dir_all(first.join("go")).unwrap();
    fs::create_dir(&bin).unwrap();
    for (name, answer) in [("go", "go1.25.0"), ("make", "GNU Make 4.3")] {
        let script = bin.join(name);
        fs::write(&script, format!("#!/bin/sh\necho {answer}\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let doctor = |path: String| {
        let mut program = program();
        program.arg("doctor").env("PATH", path);
        ProgramOutput::from(program.output().unwrap()).out
    };
    let usual = doctor(text(&bin).to_owned());
    assert!(usual.contains("Hooks can be written in Go."), "{usual}");
    let shadowed = doctor(format!("{}:{}", text(&first), text(&bin)));
    assert!(
        shadowed.contains("missing  go 1.24 or later: a directory of this name")
            && shadowed.contains("Hooks can be written in no language."),
        "{shadowed}"
    );
}

#[test]
fn doctor_reports_why_compiled_modules_are_not_cached() {
    let temp_dir = tempfile::tempdir().unwrap();
    let doctor = |home: &std::path::Path| {
        let mut program = program();
        program.arg("doctor").env("XDG_CACHE_HOME", home);
        ProgramOutput::from(program.output().unwrap()).out
    };
    let private_cache = doctor(temp_dir.path());
    assert!(private_cache.contains("kept in "), "{private_cache}");
    let shared = temp_dir.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o775)).unwrap();
    let shared_cache = doctor(&shared);
    let reason = format!(
        "others may write to {}",
        text(&shared.canonicalize().unwrap())
    );
    assert!(
        shared_cache.contains("not kept, so") && shared_cache.contains(&reason),
        "{shared_cache}"
    );
}

#[test]
fn every_verb_has_a_man_page() {
    let temp_dir = tempfile::tempdir().unwrap();
    virt_hook(&["man", "--into", text(temp_dir.path())]).success_stdout();
    for (page, part) in [
        ("virt-hook.1", "Exit codes"),
        ("virt-hook-check.1", "without"),
        (
            "virt-hook-check.1",
            "\nvirt\\-hook check [OPTIONS] <WASM>\n",
        ),
        ("virt-hook-compare.1", "\\-\\-hook <DIR_OR_WASM>"),
        ("virt-hook-policy-check.1", "\nvirt\\-hook policy check "),
    ] {
        let text = fs::read_to_string(temp_dir.path().join(page)).unwrap();
        assert!(
            text.contains(part) && text.starts_with(".ie"),
            "{page}: {text}"
        );
    }
    assert!(!temp_dir.path().join("virt-hook-help.1").exists());
}
