//! Modules are found by the path of a file, a hook or a hooks directory; ambiguous directories are refused.
use std::os::unix::fs::symlink;

use super::*;
use crate::test_files::{layout, mkfifo};

fn refusal(path: PathBuf) -> String {
    let error = find(&[path]).unwrap_err();
    format!("{error:#}")
}

#[test]
fn settings_of_another_name_are_refused() {
    for name in ["hook.yml", "hook.json"] {
        let root = layout(&["a/x.wasm", &format!("a/{name}")]);
        for path in ["a", "a/x.wasm"] {
            let refused = refusal(root.path().join(path));
            assert!(refused.contains("call it hook.yaml"), "{refused}");
            assert!(refused.contains(name), "{refused}");
        }
    }
}

fn names(path: PathBuf) -> Vec<String> {
    find(&[path])
        .unwrap()
        .into_iter()
        .map(|hook| hook.directory)
        .collect()
}

#[test]
fn paths_may_name_a_module_a_hook_or_a_hooks_directory() {
    let root = layout(&[
        "hooks/a/x.wasm",
        "hooks/a/hook.yaml",
        "hooks/b/y.wasm",
        "hooks/c.wasm/z.wasm",
        "hooks/..data/v.wasm",
        "hooks/README",
        "z.wasm",
    ]);
    assert_eq!(names(root.path().join("z.wasm")), ["z"]);
    assert_eq!(names(root.path().join("hooks/a")), ["a"]);
    assert_eq!(names(root.path().join("hooks")), ["a", "b", "c.wasm"]);
}

#[test]
fn a_file_of_pull_and_image_is_named_after_its_directory() {
    let root = layout(&["a/hook.wasm", "b/hook.wasm"]);
    let paths = ["a/hook.wasm", "b/hook.wasm"].map(|path| root.path().join(path));
    let hooks = find(&paths).unwrap().into_iter();
    let names: Vec<_> = hooks.map(|hook| hook.directory).collect();
    assert_eq!(names, ["a", "b"]);
    let twice = find(&[paths[0].clone(), root.path().join("a")]);
    let error = twice.unwrap_err().to_string();
    assert!(error.ends_with("a/hook.wasm is named twice"), "{error}");
    let other_root = layout(&["a/hook.wasm"]);
    let error = find(&[paths[0].clone(), other_root.path().join("a")]).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("would both be the hook a"), "{error}");
}

#[test]
fn hooks_of_one_name_from_different_directories_are_refused() {
    let root = layout(&["one/net/x.wasm", "two/net/y.wasm", "two/net/hook.yaml"]);
    let paths = ["one/net", "two/net"].map(|path| root.path().join(path));
    let error = find(&paths).unwrap_err().to_string();
    assert!(
        error.contains("both be in the hook directory net"),
        "{error}"
    );
}

#[test]
fn a_module_that_cannot_be_read_is_refused() {
    type Make = fn(&Path);
    let cases: [(Make, &str); 3] = [
        (|path| symlink("gone", path).unwrap(), "No such file"),
        (|path| fs::create_dir(path).unwrap(), "directory"),
        (mkfifo, "not a regular file"),
    ];
    for (make, part) in cases {
        for directory in ["hooks", "hooks/a"] {
            let root = layout(&["hooks/a/x.wasm", "hooks/b/x.wasm"]);
            let veto = root.path().join(directory).join("veto.wasm");
            make(&veto);
            let text = refusal(root.path().join("hooks"));
            assert!(text.contains(&veto.display().to_string()), "{text}");
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn modules_in_a_directory_and_in_its_sub_directories_are_refused() {
    let root = layout(&["stray.wasm", "veto/hook.wasm"]);
    let text = refusal(root.path().to_owned());
    for part in ["stray.wasm", "veto/hook.wasm", "one by one"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn error_contains_the_path_of_a_directory_without_modules() {
    let root = layout(&["a/notes.txt"]);
    assert!(refusal(root.path().join("a")).contains("no *.wasm"));
    assert!(find(&[root.path().join("gone.wasm")]).is_err());
    let twice = layout(&["a/x.wasm"]);
    let path = twice.path().join("a");
    let error = find(&[path.clone(), path]).unwrap_err().to_string();
    assert!(error.ends_with("a/x.wasm is named twice"), "{error}");
}
