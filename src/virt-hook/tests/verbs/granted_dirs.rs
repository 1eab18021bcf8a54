//! `--grant-dir`: what it takes, what it covers, and what it refuses by name.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::handwritten_module::file_showing_module;
use super::{ProgramOutput, program, text, write};

const CONTENT: &str = "CONTENT-OF-THE-FILE";

/// Runs `check` of a module that shows a file of `declared`, with `granted`, in `directory`.
fn check(directory: &Path, declared: &Path, granted: &OsStr) -> ProgramOutput {
    let module = directory.join("hook.wasm");
    fs::write(&module, file_showing_module(text(declared), "file")).unwrap();
    let mut check = program();
    check.args(["check", text(&module), "--without-libvirt", "--grant-dir"]);
    let output = check.arg(granted).current_dir(directory).output();
    output.unwrap().into()
}

#[test]
fn a_granted_directory_is_read_under_each_of_its_names() {
    let temp_dir = tempfile::tempdir().unwrap();
    let path = |name: &str| temp_dir.path().join(name);
    write(temp_dir.path(), "data/teams/file", CONTENT);
    write(temp_dir.path(), "others/file", CONTENT);
    symlink(path("data"), path("alias")).unwrap();
    symlink(path("others"), path("data/link")).unwrap();
    for (declared, granted, is_read) in [
        ("data/teams", "data", true),
        ("data/teams", "./data/teams/", true),
        ("data/teams", "alias", true),
        ("alias/teams", "data", true),
        ("alias/teams", "alias/teams", true),
        ("data/link", "others", true),
        ("data/link", "data", false),
        ("others", "data", false),
        // It declares more than it is granted.
        ("data", "data/teams", false),
    ] {
        let row = format!("{declared} by {granted}");
        let checked = check(temp_dir.path(), &path(declared), granted.as_ref());
        let shown = checked.out + &checked.err;
        assert_eq!(shown.contains(CONTENT), is_read, "{row}: {shown}");
        let advice = format!("give --grant-dir {}", path(declared).display());
        assert_eq!(shown.contains(&advice), !is_read, "{row}: {shown}");
    }
}

#[test]
fn what_cannot_be_granted_is_refused_by_name() {
    let temp_dir = tempfile::tempdir().unwrap();
    write(temp_dir.path(), "file", "");
    let invalid = OsStr::from_bytes(b"no-utf8-\xff");
    fs::create_dir(temp_dir.path().join(invalid)).unwrap();
    for (granted, part) in [
        (OsString::from("missing"), "No such file or directory"),
        ("file".into(), "it is not a directory"),
        ("".into(), ""),
        (invalid.to_owned(), "its path is not UTF-8"),
    ] {
        for verb in [
            &["check", "x.wasm"][..],
            &["compare", "--hook", "x.wasm", "--vmi", "x.yaml"],
            &["bench", "x.wasm"],
            &["test", "--hook", "x.wasm"],
            &["replay", "x.json", "--module", "x.wasm"],
        ] {
            let mut command = program();
            command.args(verb).arg("--grant-dir").arg(&granted);
            let refused: ProgramOutput = command
                .current_dir(temp_dir.path())
                .output()
                .unwrap()
                .into();
            assert_eq!(refused.code, 2, "{verb:?} {granted:?}: {}", refused.err);
            assert!(refused.err.contains(part), "{verb:?}: {}", refused.err);
            assert!(refused.err.contains("--grant-dir"), "{}", refused.err);
        }
    }
}
