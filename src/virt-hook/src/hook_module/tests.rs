//! Copies of a module and its settings in a hooks directory, and what is refused there.
use std::os::unix::fs::symlink;

use super::*;
use crate::module_discovery::find;
use crate::test_files::{layout, mkfifo};

/// A limit above the size of the modules of these tests, which are empty.
const LIMIT: u64 = 1;

#[test]
fn settings_outside_their_directory_are_refused() {
    type Make = fn(&Path);
    let cases: [(Make, &str); 4] = [
        (|path| fs::create_dir(path).unwrap(), "not a regular file"),
        (mkfifo, "not a regular file"),
        (
            |path| symlink("/etc/passwd", path).unwrap(),
            "within the directory",
        ),
        (|path| symlink("gone", path).unwrap(), "hook.yaml"),
    ];
    for (make, part) in cases {
        let root = layout(&["a/x.wasm"]);
        let settings = root.path().join("a/hook.yaml");
        make(&settings);
        let [hook] = &find(&[root.path().join("a")]).unwrap()[..] else {
            panic!("one hook");
        };
        let error = hook.lay_out(&root.path().join("laid"), LIMIT).unwrap_err();
        assert!(matches!(error, Failure::Usage(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(part), "{text}");
        assert!(text.contains(&settings.display().to_string()), "{text}");
    }
    // The links of a ConfigMap stay within the directory.
    let root = layout(&["a/x.wasm", "a/..data/hook.yaml"]);
    symlink("..data/hook.yaml", root.path().join("a/hook.yaml")).unwrap();
    let hooks = find(&[root.path().join("a/x.wasm")]).unwrap();
    hooks[0].lay_out(&root.path().join("laid"), LIMIT).unwrap();
    assert!(root.path().join("laid/x/hook.yaml").is_file());
}

/// Otherwise a collection would wait for the grace period before each refusal.
#[test]
fn copies_count_as_completely_written() {
    let root = layout(&["a/x.wasm"]);
    fs::write(root.path().join("a/hook.yaml"), "priority: 1\n").unwrap();
    fs::write(root.path().join("a/x.wasm.sigstore.json"), "{}").unwrap();
    let laid = root.path().join("laid");
    for hook in find(&[root.path().join("a")]).unwrap() {
        hook.lay_out(&laid, LIMIT).unwrap();
    }
    let copies: Vec<_> = fs::read_dir(laid.join("a")).unwrap().flatten().collect();
    assert_eq!(copies.len(), 3);
    for copy in copies {
        let modified = copy.metadata().unwrap().modified().unwrap();
        assert!(modified.elapsed().unwrap() >= WRITE_GRACE, "{copy:?}");
    }
}

#[test]
fn a_module_keeps_its_file_name() {
    let root = layout(&["a/x-1.1.wasm", "a/x-1.2.wasm", ".hidden.wasm", "other.bin"]);
    let laid = root.path().join("laid");
    let paths = ["a", ".hidden.wasm", "other.bin"].map(|path| root.path().join(path));
    for hook in find(&paths).unwrap() {
        hook.lay_out(&laid, LIMIT).unwrap();
    }
    for file in [
        "a/x-1.1.wasm",
        "a/x-1.2.wasm",
        "hidden/hidden.wasm",
        "other/other.wasm",
    ] {
        assert!(laid.join(file).is_file(), "{file}");
    }
}

#[test]
fn a_module_that_is_too_large_is_not_copied() {
    let root = layout(&["x.wasm"]);
    fs::write(root.path().join("x.wasm"), "ab").unwrap();
    let hooks = find(&[root.path().join("x.wasm")]).unwrap();
    let error = hooks[0].lay_out(&root.path().join("laid"), LIMIT);
    let error = error.unwrap_err();
    assert!(matches!(error, Failure::Usage(_)), "{error:?}");
    assert!(error.to_string().contains("2 bytes"), "{error}");
    assert!(!root.path().join("laid").exists());
}

#[test]
fn an_unwritable_directory_is_an_internal_failure() {
    let root = layout(&["x.wasm", "file"]);
    let hooks = find(&[root.path().join("x.wasm")]).unwrap();
    let error = hooks[0].lay_out(&root.path().join("file/laid"), LIMIT);
    let error = error.unwrap_err();
    assert!(matches!(error, Failure::Internal(_)), "{error:?}");
}
