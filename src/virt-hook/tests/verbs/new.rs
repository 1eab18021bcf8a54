//! `new`: the generated project builds and passes its own tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{ProgramOutput, text, virt_hook};

/// What `new` says to type next, typed: where this program is a file that no `PATH` leads to, and no source
/// tree is near.
fn next(printed: &str, temp_dir: &Path) -> ProgramOutput {
    let command = printed
        .lines()
        .find(|line| line.contains("make -C"))
        .unwrap_or_else(|| panic!("it says nothing to type: {printed}"));
    shell(command, temp_dir)
}

fn shell(command: &str, temp_dir: &Path) -> ProgramOutput {
    let path = std::env::var("PATH").unwrap();
    let own = Path::new(env!("CARGO_BIN_EXE_virt-hook")).parent();
    let elsewhere = std::env::split_paths(&path).filter(|directory| Some(&**directory) != own);
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(temp_dir)
        .env("PATH", std::env::join_paths(elsewhere).unwrap())
        .env("CARGO", env!("CARGO"))
        // Shared by all runs of this test, so that what the SDK needs is built only once.
        .env(
            "CARGO_TARGET_DIR",
            tests::binaries::target_dir().join("new-hook"),
        )
        .output()
        .unwrap();
    output.into()
}

#[test]
fn a_new_rust_hook_needs_the_program_alone_and_passes_its_tests_and_the_checks() {
    let temp_dir = tempfile::tempdir().unwrap();
    let temp_dir = temp_dir.path();
    // By another process: what this one wrote, a test beside it might hold open.
    shell(
        &format!("cp {} vh", env!("CARGO_BIN_EXE_virt-hook")),
        temp_dir,
    )
    .ok();
    let made = shell("./vh new shop-title", temp_dir).ok();
    let tested = next(&made, temp_dir);
    let shown = format!("{}{}", tested.out, tested.err);
    assert_eq!(tested.code, 0, "{shown}");
    assert!(shown.contains("3 passed, 0 failed"), "{shown}");
    assert!(!shown.contains("warning"), "{shown}");
    let checked = shell("VIRT_HOOK=$PWD/vh make -C shop-title check", temp_dir).ok();
    assert!(
        checked.contains("wishes: everything that it declares is used"),
        "{checked}"
    );
}

#[test]
fn a_name_that_is_none_and_a_place_that_is_taken_are_refused() {
    let temp_dir = tempfile::tempdir().unwrap();
    let named = virt_hook(&["new", text(&temp_dir.path().join("Shop_Title"))]);
    assert_eq!(named.code, 2);
    assert!(
        named.err.contains("Shop_Title") && named.err.contains("a-z"),
        "{}",
        named.err
    );
    let taken = temp_dir.path().join("taken");
    fs::create_dir(&taken).unwrap();
    let refused = virt_hook(&["new", text(&taken), "--json"]);
    assert_eq!(
        (refused.code, refused.json()["error"]["kind"].as_str()),
        (2, Some("usage"))
    );
}

#[test]
fn every_language_has_a_project() {
    let temp_dir = tempfile::tempdir().unwrap();
    for lang in ["rust", "python", "c", "go"] {
        let project = temp_dir.path().join(lang);
        let json = virt_hook(&["new", text(&project), "--lang", lang, "--json"]).json();
        let files = json["result"]["files"].as_array().unwrap();
        assert!(files.iter().any(|file| file == "Makefile"), "{json:#}");
        assert!(project.join("README.md").is_file(), "{json:#}");
        let sdk = json["result"]["sdk"].as_str();
        assert_eq!(sdk.is_some(), lang == "rust", "{json:#}");
        // All that is needed beside the language's own tools lies in there.
        let wit = [
            "sdk/hooks-sdk/wit/v0.1/hooks.wit",
            "sdk/wit/hooks.wit",
            "sdk/hooks.wit",
        ];
        assert!(
            wit.iter().any(|wit| project.join(wit).is_file()),
            "{json:#}"
        );
    }
}

/// The module has the crate's name: a Makefile that knew the old one would test the module of before.
#[test]
fn make_finds_the_module_and_the_cases_after_a_rename() {
    let temp_dir = tempfile::tempdir().unwrap();
    virt_hook(&["new", text(&temp_dir.path().join("first"))]).ok();
    let project = temp_dir.path().join("first");
    let manifest = project.join("Cargo.toml");
    let renamed = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, renamed.replace("\"first\"", "\"second-one\"")).unwrap();
    fs::rename(project.join("cases/titled"), project.join("cases/other")).unwrap();
    let made = shell("make -n -C first check", temp_dir.path()).ok();
    assert!(
        made.contains("/hook/second_one.wasm") && made.contains("--vmi cases/other/vmi.yaml"),
        "{made}"
    );
    assert!(
        !made.contains("first.wasm") && !made.contains("titled"),
        "{made}"
    );
}

#[test]
fn make_finds_the_module_where_cargo_is_configured_to_build() {
    let temp_dir = tempfile::tempdir().unwrap();
    let temp_dir = temp_dir.path();
    virt_hook(&["new", text(&temp_dir.join("first"))]).ok();
    let configured =
        "mkdir .cargo && printf '[build]\\ntarget-dir = \"by file\"\\n' > .cargo/config.toml";
    shell(configured, temp_dir).ok();
    for (environment, expected) in [
        ("env -u CARGO_TARGET_DIR", "by file"),
        (
            "env -u CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR=$PWD/named",
            "named",
        ),
        ("env CARGO_TARGET_DIR=$PWD/other", "other"),
    ] {
        let made = shell(&format!("{environment} make -n -C first test"), temp_dir).ok();
        let module = temp_dir
            .join(expected)
            .join("wasm32-wasip2/hook/first.wasm");
        assert!(
            made.contains(&format!("--hook '{}'", text(&module))),
            "{made}"
        );
    }
}

/// Such variables are for programs of the machine; the Makefiles took them for their own.
#[test]
fn variables_that_environments_export_do_not_change_the_build() {
    let temp_dir = tempfile::tempdir().unwrap();
    let temp_dir = temp_dir.path();
    for lang in ["c", "python"] {
        virt_hook(&["new", text(&temp_dir.join(lang)), "--lang", lang]).ok();
        let plain = shell(&format!("make -n -C {lang} test"), temp_dir).ok();
        let exported = "CFLAGS=-O9 LDFLAGS=-lx PYTHON=/usr/bin/python3 PACKAGES=gcc";
        let made = shell(&format!("{exported} make -n -C {lang} test"), temp_dir).ok();
        assert_eq!(made, plain, "{lang}");
    }
    let own = shell("make -n -C c HOOK_CFLAGS=-DOWN", temp_dir).ok();
    assert!(own.contains("-DOWN"), "{own}");
}

/// A new project with a file in a subdirectory, for which `make` takes everything as built.
fn built_project(temp_dir: &Path, lang: &str, file: &str, content: &str) -> std::path::PathBuf {
    let project = temp_dir.join(lang);
    virt_hook(&["new", text(&project), "--lang", lang]).ok();
    let file = project.join(file);
    for directory in [
        file.parent().unwrap(),
        &project.join("build/sdk/bindings"),
        &project.join(".venv/bin"),
    ] {
        fs::create_dir_all(directory).unwrap();
    }
    fs::write(file, content).unwrap();
    shell(&format!("make -C {lang} --touch"), temp_dir).ok();
    project
}

#[test]
fn make_check_names_go_files_that_gofmt_would_change() {
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
    let printed = shell(check, temp_dir.path()).ok();
    assert!(
        printed.contains("not formatted as gofmt does it: own.go (`../fake-go fmt ./...` does)"),
        "{printed}"
    );
    fs::write(project.join("formatted"), "").unwrap();
    shell("make -C go --touch", temp_dir.path()).ok();
    let printed = shell(check, temp_dir.path()).ok();
    assert!(!printed.contains("not formatted"), "{printed}");
}

#[test]
fn an_edit_anywhere_in_the_project_makes_the_module_again() {
    let temp_dir = tempfile::tempdir().unwrap();
    let temp_dir = temp_dir.path();
    for (lang, file, others) in [
        ("go", "internal/x/page.txt", "internal/x/x_test.go"),
        ("python", "pkg/x.py", "test_hook.py"),
        ("c", "include/x.h", "test_c.c"),
    ] {
        built_project(temp_dir, lang, file, "");
        // As if the file had just been written.
        let is_current = |edited: &str| {
            let make = shell(
                &format!("make -C {lang} --question --what-if={edited}"),
                temp_dir,
            );
            assert!(make.code < 2, "{lang}: {}", make.err);
            make.code == 0
        };
        assert!(is_current(others), "{lang}");
        assert!(!is_current(file), "{lang}: {file}");
    }
    let tests = shell("make -C go -n native", temp_dir).ok();
    assert!(tests.contains("test ./..."), "{tests}");
}

#[test]
fn a_python_package_that_asks_for_facts_about_the_pod_gets_the_import() {
    let temp_dir = tempfile::tempdir().unwrap();
    let import = "import virt-hook:hooks/pod@0.1.1";
    let temp_dir = temp_dir.path();
    built_project(temp_dir, "python", "pkg/x.py", "VALUE = 1\n");
    let world = || shell("make -C python --dry-run --always-make", temp_dir).ok();
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
    native("PACKAGES=vendor").ok();
}

#[test]
fn sdk_option_is_used_as_a_path_dependency() {
    let temp_dir = tempfile::tempdir().unwrap();
    let project = temp_dir.path().join("named");
    let sdk = tests::binaries::workspace().join("hooks-sdk");
    virt_hook(&["new", text(&project), "--sdk", text(&sdk)]).ok();
    let manifest = fs::read_to_string(project.join("Cargo.toml")).unwrap();
    let line = format!("hooks-sdk = {{ path = {:?} }}", text(&sdk));
    assert!(manifest.contains(&line), "{manifest}");
    assert!(!project.join("sdk").exists());
}

#[test]
fn an_sdk_is_for_rust_alone() {
    let place = tempfile::tempdir().unwrap();
    let project = place.path().join("named");
    let sdk = tests::binaries::workspace().join("hooks-sdk");
    for lang in ["go", "c", "python"] {
        let refused = virt_hook(&["new", text(&project), "--lang", lang, "--sdk", text(&sdk)]);
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert!(
            refused.err.contains("--sdk is for hooks in Rust"),
            "{}",
            refused.err
        );
        assert!(!project.exists());
    }
}

#[test]
fn hooks_of_a_workspace_share_the_sdk_and_the_target_directory() {
    let temp_dir = tempfile::tempdir().unwrap();
    let hooks = temp_dir.path().join("hooks");
    virt_hook(&["new", "--workspace", text(&hooks)]).ok();
    for name in ["first", "second"] {
        let project = hooks.join(name);
        let made = virt_hook(&["new", text(&project)]).ok();
        assert!(
            made.contains("hooks-sdk is that of the workspace"),
            "{made}"
        );
        assert!(!project.join("sdk").exists() && !project.join("Cargo.lock").exists());
        let manifest = fs::read_to_string(project.join("Cargo.toml")).unwrap();
        assert!(
            manifest.ends_with("\n[dependencies]\nhooks-sdk = { workspace = true }\n"),
            "{manifest}"
        );
    }
    virt_hook(&["new", text(&hooks.join("third")), "--lang", "c"]).ok();
    // The list of members may have been written by hand.
    let manifest = hooks.join("Cargo.toml");
    let text_now = fs::read_to_string(&manifest).unwrap();
    let one_line = text_now.replace(
        "members = [\n    \"second\",\n    \"first\",\n]",
        "members = [\"first\"]",
    );
    assert_ne!(one_line, text_now);
    fs::write(&manifest, one_line).unwrap();
    fs::remove_dir_all(hooks.join("second")).unwrap();
    virt_hook(&["new", text(&hooks.join("second"))]).ok();
    // Cargo takes it, with the versions of the lock file.
    let metadata = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--offline",
            "--manifest-path",
        ])
        .arg(hooks.join("first/Cargo.toml"))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&metadata.stderr);
    assert!(metadata.status.success(), "{printed}");
    let json: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
    assert_eq!(
        json["workspace_members"].as_array().unwrap().len(),
        2,
        "{json}"
    );
    assert_eq!(json["target_directory"], text(&hooks.join("target")));
    let made = Command::new("make")
        .args(["-n", "test"])
        .current_dir(hooks.join("second"))
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .unwrap();
    let made = String::from_utf8_lossy(&made.stdout).into_owned();
    assert!(
        made.contains(&format!(
            "{}/target/wasm32-wasip2/hook/second.wasm",
            text(&hooks)
        )),
        "{made}"
    );
    let refused = virt_hook(&[
        "new",
        text(&hooks.join("x")),
        "--sdk",
        text(temp_dir.path()),
    ]);
    assert!(
        refused.code == 2 && refused.err.contains("leave --sdk out"),
        "{}",
        refused.err
    );
}
