//! The Makefiles of projects that `new` creates.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::new::shell;
use super::{text, virt_hook};

/// The module has the name of the crate: a Makefile with the old name would test the old module.
#[test]
fn make_finds_the_module_and_the_cases_after_a_rename() {
    let temp_dir = tempfile::tempdir().unwrap();
    virt_hook(&["new", text(&temp_dir.path().join("first"))]).success_stdout();
    let project = temp_dir.path().join("first");
    let manifest = project.join("Cargo.toml");
    let renamed = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, renamed.replace("\"first\"", "\"second-one\"")).unwrap();
    fs::rename(project.join("cases/titled"), project.join("cases/other")).unwrap();
    let make_output = shell("make -n -C first check", temp_dir.path()).success_stdout();
    assert!(
        make_output.contains("/hook/second_one.wasm")
            && make_output.contains("--vmi cases/other/vmi.yaml"),
        "{make_output}"
    );
    assert!(
        !make_output.contains("first.wasm") && !make_output.contains("titled"),
        "{make_output}"
    );
}

#[test]
fn make_finds_the_module_where_cargo_is_configured_to_build() {
    let temp_dir = tempfile::tempdir().unwrap();
    let temp_dir = temp_dir.path();
    virt_hook(&["new", text(&temp_dir.join("first"))]).success_stdout();
    let configured =
        "mkdir .cargo && printf '[build]\\ntarget-dir = \"by file\"\\n' > .cargo/config.toml";
    shell(configured, temp_dir).success_stdout();
    for (environment, expected) in [
        ("env -u CARGO_TARGET_DIR", "by file"),
        (
            "env -u CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR=$PWD/named",
            "named",
        ),
        ("env CARGO_TARGET_DIR=$PWD/other", "other"),
    ] {
        let make_output =
            shell(&format!("{environment} make -n -C first test"), temp_dir).success_stdout();
        let module = temp_dir
            .join(expected)
            .join("wasm32-wasip2/hook/first.wasm");
        assert!(
            make_output.contains(&format!("--hook '{}'", text(&module))),
            "{make_output}"
        );
    }
}

/// Such variables are meant for native programs, and must not affect the Makefiles' builds.
#[test]
fn variables_that_environments_export_do_not_change_the_build() {
    let temp_dir = tempfile::tempdir().unwrap();
    let temp_dir = temp_dir.path();
    for lang in ["c", "python"] {
        virt_hook(&["new", text(&temp_dir.join(lang)), "--lang", lang]).success_stdout();
        let plain_output = shell(&format!("make -n -C {lang} test"), temp_dir).success_stdout();
        let exported = "CFLAGS=-O9 LDFLAGS=-lx PYTHON=/usr/bin/python3 PACKAGES=gcc";
        let make_output =
            shell(&format!("{exported} make -n -C {lang} test"), temp_dir).success_stdout();
        assert_eq!(make_output, plain_output, "{lang}");
    }
    let own_flags_output = shell("make -n -C c HOOK_CFLAGS=-DOWN", temp_dir).success_stdout();
    assert!(own_flags_output.contains("-DOWN"), "{own_flags_output}");
}

/// A new project with an additional file, in which `make` considers everything as built.
fn built_project(temp_dir: &Path, lang: &str, file: &str, content: &str) -> PathBuf {
    let project = temp_dir.join(lang);
    virt_hook(&["new", text(&project), "--lang", lang]).success_stdout();
    let file = project.join(file);
    for directory in [
        file.parent().unwrap(),
        &project.join("build/sdk/bindings"),
        &project.join(".venv/bin"),
    ] {
        fs::create_dir_all(directory).unwrap();
    }
    fs::write(file, content).unwrap();
    shell(&format!("make -C {lang} --touch"), temp_dir).success_stdout();
    project
}

#[test]
fn make_check_reports_go_files_that_gofmt_would_change() {
    let temp_dir = tempfile::tempdir().unwrap();
    let project = built_project(temp_dir.path(), "go", "own.go", "package main\n");
    let program = |name: &str, script: &str| {
        let path = temp_dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    program("fake-go", &format!("echo {}", text(temp_dir.path())));
    program("bin/gofmt", "test -f formatted || echo own.go");
    let check = "make -C go check VIRT_HOOK=true GO=../fake-go";
    let printed = shell(check, temp_dir.path()).success_stdout();
    assert!(
        printed.contains("not formatted as gofmt does it: own.go (`../fake-go fmt ./...` does)"),
        "{printed}"
    );
    fs::write(project.join("formatted"), "").unwrap();
    shell("make -C go --touch", temp_dir.path()).success_stdout();
    let printed = shell(check, temp_dir.path()).success_stdout();
    assert!(!printed.contains("not formatted"), "{printed}");
}

#[test]
fn an_edit_of_any_source_rebuilds_the_module() {
    let temp_dir = tempfile::tempdir().unwrap();
    let temp_dir = temp_dir.path();
    for (lang, file, others) in [
        ("go", "internal/x/page.txt", "internal/x/x_test.go"),
        ("python", "pkg/x.py", "test_hook.py"),
        ("c", "include/x.h", "test_c.c"),
    ] {
        built_project(temp_dir, lang, file, "");
        // Whether the module is up to date if the file has just been written.
        let is_up_to_date = |edited: &str| {
            let make = shell(
                &format!("make -C {lang} --question --what-if={edited}"),
                temp_dir,
            );
            assert!(make.code < 2, "{lang}: {}", make.err);
            make.code == 0
        };
        assert!(is_up_to_date(others), "{lang}");
        assert!(!is_up_to_date(file), "{lang}: {file}");
    }
    let tests = shell("make -C go -n native", temp_dir).success_stdout();
    assert!(tests.contains("test ./..."), "{tests}");
}

#[test]
fn a_python_package_that_reads_facts_about_the_pod_gets_the_import() {
    let temp_dir = tempfile::tempdir().unwrap();
    let import = "import virt-hook:hooks/pod@0.1.1";
    let temp_dir = temp_dir.path();
    built_project(temp_dir, "python", "pkg/x.py", "VALUE = 1\n");
    let world = || shell("make -C python --dry-run --always-make", temp_dir).success_stdout();
    assert!(!world().contains(import), "{}", world());
    fs::write(
        temp_dir.join("python/pkg/x.py"),
        "from virt_hook import Hook, pod as facts\n",
    )
    .unwrap();
    assert!(world().contains(import), "{}", world());
}

#[test]
fn native_tests_in_python_import_from_packages() {
    let temp_dir = tempfile::tempdir().unwrap();
    let project = built_project(temp_dir.path(), "python", "vendor/helper.py", "VALUE = 1\n");
    let hook = project.join("hook.py");
    let source = fs::read_to_string(&hook).unwrap();
    fs::write(&hook, format!("import helper\n{source}")).unwrap();
    let native = |packages| {
        shell(
            &format!("PYTHONDONTWRITEBYTECODE=1 make -C python native {packages}"),
            temp_dir.path(),
        )
    };
    let without = native("");
    assert!(
        without.err.contains("No module named 'helper'"),
        "{}",
        without.err
    );
    native("PACKAGES=vendor").success_stdout();
}
