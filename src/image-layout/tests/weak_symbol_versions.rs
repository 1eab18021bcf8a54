//! Programs that need a symbol version which the base lacks, linked with the system's C compiler.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use image_layout::{ImageError, NewestVersion, symbol_versions};

/// A version that no base has.
const NEWER: &str = "GLIBC_2.99";
const OLD_MAP: &str = "GLIBC_2.2.5 { global: base; local: *; };";
const NEW_MAP: &str =
    "GLIBC_2.2.5 { global: base; local: *; };\nGLIBC_2.99 { global: newer; } GLIBC_2.2.5;";

/// The newest glibc version of KubeVirt's image.
const BASE: [NewestVersion; 1] = [NewestVersion {
    prefix: "GLIBC_",
    version: [2, 34],
}];

fn mark_weak_versions(program: &mut [u8]) -> Result<(), ImageError> {
    image_layout::mark_weak_versions(program, &BASE)
}

fn run_cc(arguments: &[&str], directory: &Path) {
    let output = Command::new("cc")
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cc {arguments:?}: {stderr}");
}

/// Links a library with and without the newer function, and a program that exits with the result of the newer function
/// (4) if there is one, else of the older one (3). `attribute` is that of the newer function's declaration.
fn link_program(directory: &Path, attribute: &str) -> Vec<u8> {
    let write = |name: &str, text: &str| fs::write(directory.join(name), text).unwrap();
    write("old.c", "int base(void) { return 3; }\n");
    write(
        "new.c",
        "int base(void) { return 3; }\nint newer(void) { return 4; }\n",
    );
    write("old.map", OLD_MAP);
    write("new.map", NEW_MAP);
    write(
        "program.c",
        &format!(
            "int base(void);\nint newer(void) {attribute};\n\
             int main(void) {{ return newer ? newer() : base(); }}\n"
        ),
    );
    for version in ["old", "new"] {
        fs::create_dir_all(directory.join(version)).unwrap();
        let map = format!("-Wl,--version-script={version}.map");
        let (source, library) = (format!("{version}.c"), format!("{version}/libfake.so"));
        let arguments = ["-shared", "-fPIC", "-o", &library, &source, &map];
        run_cc(&arguments, directory);
    }
    run_cc(
        &["-o", "program", "program.c", "-Lnew", "-lfake"],
        directory,
    );
    fs::read(directory.join("program")).unwrap()
}

/// Runs the program with one of the libraries, and returns the exit code.
fn run(directory: &Path, program: &[u8], library: &str) -> Option<i32> {
    let path = directory.join("marked");
    let _ = fs::remove_file(&path);
    fs::write(&path, program).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    // The shell runs the program: in a direct child of this process, the file might still be open for writing.
    let status = Command::new("sh")
        .args(["-c", "exec ./marked"])
        .env("LD_LIBRARY_PATH", library)
        .current_dir(directory)
        .status();
    status.unwrap().code()
}

#[test]
fn version_of_weak_references_is_marked_and_no_longer_needed() {
    let directory = tempfile::tempdir().unwrap();
    let mut program = link_program(directory.path(), "__attribute__((weak))");
    let versions = symbol_versions(&program).unwrap();
    assert!(versions.contains(&NEWER.to_owned()), "{versions:?}");
    let failed = run(directory.path(), &program, "old");
    assert!(![Some(3), Some(4)].contains(&failed), "{failed:?}");

    mark_weak_versions(&mut program).unwrap();
    let versions = symbol_versions(&program).unwrap();
    assert!(!versions.contains(&NEWER.to_owned()), "{versions:?}");
    assert!(versions.len() > 1, "the others are needed: {versions:?}");
    assert_eq!(run(directory.path(), &program, "old"), Some(3));
    assert_eq!(run(directory.path(), &program, "new"), Some(4));

    let marked = program.clone();
    mark_weak_versions(&mut program).unwrap();
    assert!(program == marked, "marking again changes nothing");
}

#[test]
fn version_of_a_strong_reference_is_not_marked_and_launcher_image_fails() {
    let directory = tempfile::tempdir().unwrap();
    let mut program = link_program(directory.path(), "");
    let before = program.clone();
    mark_weak_versions(&mut program).unwrap();
    assert!(program == before, "nothing is marked");
    fs::write(directory.path().join("virt-launcher"), &program).unwrap();

    let output = Command::new(env!("CARGO_BIN_EXE_launcher-image"))
        .arg("--programs")
        .arg(directory.path())
        .arg("--context")
        .arg(directory.path().join("context"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{stderr}");
    for word in ["virt-launcher", NEWER, "GLIBC_2.34"] {
        assert!(stderr.contains(word), "{stderr}");
    }
}

#[test]
fn files_that_are_no_elf_programs_are_errors() {
    mark_weak_versions(&mut b"#!/bin/sh".to_vec()).unwrap_err();
    mark_weak_versions(&mut b"\x7fELF".to_vec()).unwrap_err();
    let program = fs::read(std::env::current_exe().unwrap()).unwrap();
    let mut half = program[..program.len() / 2].to_vec();
    mark_weak_versions(&mut half).unwrap_err();
}
