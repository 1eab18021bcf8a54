use super::*;

fn layout(files: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for file in files {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    root
}

#[test]
fn settings_that_are_no_file_of_their_directory_are_refused() {
    use std::os::unix::fs::symlink;
    use std::path::Path;
    type Make = fn(&Path);
    let cases: [(Make, &str); 4] = [
        (|path| fs::create_dir(path).unwrap(), "no regular file"),
        (
            |path| {
                let mkfifo = std::process::Command::new("mkfifo").arg(path).status();
                assert!(mkfifo.unwrap().success());
            },
            "no regular file",
        ),
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
        let error = lay_out(hook, &root.path().join("laid")).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains(part), "{text}");
        assert!(text.contains(&settings.display().to_string()), "{text}");
    }
    // A ConfigMap's links stay within.
    let root = layout(&["a/x.wasm", "a/..data/hook.yaml"]);
    symlink("..data/hook.yaml", root.path().join("a/hook.yaml")).unwrap();
    let hooks = find(&[root.path().join("a/x.wasm")]).unwrap();
    lay_out(&hooks[0], &root.path().join("laid")).unwrap();
    assert!(root.path().join("laid/x/hook.yaml").is_file());
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
        "hooks/README",
        "z.wasm",
    ]);
    assert_eq!(names(root.path().join("z.wasm")), ["z"]);
    assert_eq!(names(root.path().join("hooks/a")), ["a"]);
    assert_eq!(names(root.path().join("hooks")), ["a", "b"]);
}

#[test]
fn a_directory_without_modules_is_named() {
    let root = layout(&["a/notes.txt"]);
    let error = find(&[root.path().join("a")]).unwrap_err().to_string();
    assert!(error.contains("no *.wasm"), "{error}");
    assert!(find(&[root.path().join("gone.wasm")]).is_err());
    let twice = layout(&["a/x.wasm"]);
    let path = twice.path().join("a");
    assert!(
        find(&[path.clone(), path])
            .unwrap_err()
            .to_string()
            .contains("same name")
    );
}
