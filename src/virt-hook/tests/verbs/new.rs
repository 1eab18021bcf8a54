//! `new`: the generated project builds and passes its own tests.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{ProgramOutput, text, virt_hook};

/// Runs the command that `new` prints as the next one, in a directory without source tree, with this program not in
/// `PATH`.
fn run_next_command(printed: &str, temp_dir: &Path) -> ProgramOutput {
    let command = printed
        .lines()
        .find(|line| line.contains("make -C"))
        .unwrap_or_else(|| panic!("it says nothing to type: {printed}"));
    shell(command, temp_dir)
}

/// Runs a shell command in a directory, with this program not in `PATH`.
pub(super) fn shell(command: &str, temp_dir: &Path) -> ProgramOutput {
    let path = std::env::var("PATH").unwrap();
    let own_directory = Path::new(env!("CARGO_BIN_EXE_virt-hook")).parent();
    let other_directories =
        std::env::split_paths(&path).filter(|directory| Some(&**directory) != own_directory);
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(temp_dir)
        .env("PATH", std::env::join_paths(other_directories).unwrap())
        .env("CARGO", env!("CARGO"))
        // A directory that all runs of this test share, so that the SDK's dependencies are built only once.
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
    // The copy is made by another process: a concurrent test could hold a file open that this process has written.
    shell(
        &format!("cp {} vh", env!("CARGO_BIN_EXE_virt-hook")),
        temp_dir,
    )
    .success_stdout();
    let new_output = shell("./vh new shop-title", temp_dir).success_stdout();
    let tested = run_next_command(&new_output, temp_dir);
    let shown = format!("{}{}", tested.out, tested.err);
    assert_eq!(tested.code, 0, "{shown}");
    assert!(shown.contains("3 passed, 0 failed"), "{shown}");
    assert!(!shown.contains("warning"), "{shown}");
    let checked = shell("VIRT_HOOK=$PWD/vh make -C shop-title check", temp_dir).success_stdout();
    assert!(checked.contains("wishes: all wishes are used"), "{checked}");
}

#[test]
fn an_invalid_name_and_an_existing_directory_are_refused() {
    let temp_dir = tempfile::tempdir().unwrap();
    let invalid_name = virt_hook(&["new", text(&temp_dir.path().join("Shop_Title"))]);
    assert_eq!(invalid_name.code, 2);
    assert!(
        invalid_name.err.contains("Shop_Title") && invalid_name.err.contains("a-z"),
        "{}",
        invalid_name.err
    );
    let existing = temp_dir.path().join("taken");
    fs::create_dir(&existing).unwrap();
    let refused = virt_hook(&["new", text(&existing), "--json"]);
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
        // The project includes everything but the tools of the language.
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

#[test]
fn sdk_option_is_used_as_a_path_dependency() {
    let temp_dir = tempfile::tempdir().unwrap();
    let project = temp_dir.path().join("named");
    let sdk = tests::binaries::workspace().join("hooks-sdk");
    virt_hook(&["new", text(&project), "--sdk", text(&sdk)]).success_stdout();
    let manifest = fs::read_to_string(project.join("Cargo.toml")).unwrap();
    let line = format!("hooks-sdk = {{ path = {:?} }}", text(&sdk));
    assert!(manifest.contains(&line), "{manifest}");
    assert!(!project.join("sdk").exists());
}

#[test]
fn sdk_option_is_refused_for_languages_other_than_rust() {
    let temp_dir = tempfile::tempdir().unwrap();
    let project = temp_dir.path().join("named");
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
    virt_hook(&["new", "--workspace", text(&hooks)]).success_stdout();
    for name in ["first", "second"] {
        let project = hooks.join(name);
        let new_output = virt_hook(&["new", text(&project)]).success_stdout();
        assert!(
            new_output.contains("hooks-sdk is that of the workspace"),
            "{new_output}"
        );
        assert!(!project.join("sdk").exists() && !project.join("Cargo.lock").exists());
        let manifest = fs::read_to_string(project.join("Cargo.toml")).unwrap();
        assert!(
            manifest.ends_with("\n[dependencies]\nhooks-sdk = { workspace = true }\n"),
            "{manifest}"
        );
    }
    virt_hook(&["new", text(&hooks.join("third")), "--lang", "c"]).success_stdout();
    // The list of members may have another format, if it was written by hand.
    let manifest = hooks.join("Cargo.toml");
    let text_now = fs::read_to_string(&manifest).unwrap();
    let one_line = text_now.replace(
        "members = [\n    \"second\",\n    \"first\",\n]",
        "members = [\"first\"]",
    );
    assert_ne!(one_line, text_now);
    fs::write(&manifest, one_line).unwrap();
    fs::remove_dir_all(hooks.join("second")).unwrap();
    virt_hook(&["new", text(&hooks.join("second"))]).success_stdout();
    // Cargo accepts the workspace, with the versions of the lock file.
    let metadata = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--offline",
            "--manifest-path",
        ])
        .arg(hooks.join("first/Cargo.toml"))
        .env_remove("CARGO_TARGET_DIR")
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
    let make_output = Command::new("make")
        .args(["-n", "test"])
        .current_dir(hooks.join("second"))
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .unwrap();
    let make_output = String::from_utf8_lossy(&make_output.stdout).into_owned();
    assert!(
        make_output.contains(&format!(
            "{}/target/wasm32-wasip2/hook/second.wasm",
            text(&hooks)
        )),
        "{make_output}"
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
