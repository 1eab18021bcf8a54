//! Which files are hooks, limits of their number, unprintable names, and links.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::*;

fn names(listing: &HooksListing) -> Vec<String> {
    let mut names: Vec<_> = listing
        .hooks
        .iter()
        .map(|file| format!("{} {:?}", file.id, file.kind))
        .collect();
    names.sort();
    names
}

#[test]
fn directories_with_too_many_entries_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let hook = dir.path().join("h");
    fs::create_dir(&hook).unwrap();
    for (count, extension) in [(300, "wasm"), (5000, "txt")] {
        for file in 0..count {
            fs::write(hook.join(format!("{file}.{extension}")), "").unwrap();
        }
        let error = scan(dir.path()).unwrap_err().to_string();
        assert!(error.contains("/h: more than"), "{error}");
        fs::remove_dir_all(&hook).unwrap();
        fs::create_dir(&hook).unwrap();
    }
    for number in 0..5000 {
        fs::create_dir(dir.path().join(format!(".{number}"))).unwrap();
    }
    let error = scan(dir.path()).unwrap_err().to_string();
    assert!(error.contains("more than 4096 entries"), "{error}");
}

#[test]
fn sockets_and_modules_with_unprintable_names_are_refused() {
    for name in ["a\u{202e}b", "a\u{1b}[2Jb", "a\nb"] {
        let dir = tempfile::tempdir().unwrap();
        let hook = dir.path().join("h");
        fs::create_dir(&hook).unwrap();
        fs::write(hook.join(name), "no hook").unwrap();
        assert_eq!(names(&scan(dir.path()).unwrap()), Vec::<String>::new());
        fs::remove_file(hook.join(name)).unwrap();
        let socket = UnixListener::bind(hook.join(name)).unwrap();
        let socket_error = scan(dir.path()).unwrap_err().to_string();
        drop(socket);
        fs::remove_file(hook.join(name)).unwrap();
        fs::write(hook.join(format!("{name}.wasm")), "").unwrap();
        for error in [socket_error, scan(dir.path()).unwrap_err().to_string()] {
            assert!(error.contains("cannot be printed; rename it"), "{error}");
            assert!(error.chars().all(is_printable), "{error:?}");
        }
    }
}

#[test]
fn the_number_of_hooks_is_limited_and_other_files_do_not_count() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..MAX_HOOKS {
        let hook = dir.path().join(format!("h{number}"));
        fs::create_dir(&hook).unwrap();
        fs::write(hook.join("a.wasm"), "").unwrap();
        fs::write(hook.join("hook.yaml"), "").unwrap();
    }
    assert_eq!(scan(dir.path()).unwrap().hooks.len(), MAX_HOOKS);
    fs::write(dir.path().join("h0/b.wasm"), "").unwrap();
    let error = scan(dir.path()).unwrap_err().to_string();
    assert!(error.contains("more than 256 sockets"), "{error}");
}

#[test]
fn only_sockets_and_modules_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b", "..data", "empty", "a/nested.wasm"] {
        fs::create_dir_all(dir.path().join(name)).unwrap();
    }
    for name in [
        "stray.wasm",
        "a/x.wasm",
        "a/README",
        "a/.hidden.wasm",
        "..data/y.wasm",
    ] {
        fs::write(dir.path().join(name), "x").unwrap();
    }
    let _socket = UnixListener::bind(dir.path().join("b/any.name")).unwrap();
    let listing = scan(dir.path()).unwrap();
    assert_eq!(names(&listing), ["a/x.wasm Module", "b/any.name Socket"]);
    assert_eq!(listing.directories.len(), 3);
    let mut unusable = listing.unusable;
    unusable.sort();
    assert_eq!(
        unusable,
        [
            "a/nested.wasm is not a regular file",
            "stray.wasm is in no directory of its own, after which it would be named"
        ]
    );
    assert_eq!(
        scan(&dir.path().join("none")).unwrap(),
        HooksListing::default()
    );
}

#[test]
fn links_within_a_config_map_mount_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let hook = dir.path().join("h");
    fs::create_dir_all(hook.join("..2024_01")).unwrap();
    fs::write(hook.join("..2024_01/m.wasm"), "x").unwrap();
    symlink("..2024_01", hook.join("..data")).unwrap();
    symlink("..data/m.wasm", hook.join("m.wasm")).unwrap();
    symlink("..data/later.wasm", hook.join("later.wasm")).unwrap();
    assert_eq!(names(&scan(dir.path()).unwrap()), ["h/m.wasm Module"]);
}

#[test]
fn links_out_of_the_directory_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["h", "other"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    fs::write(dir.path().join("other/m.txt"), "x").unwrap();
    symlink("../other/m.txt", dir.path().join("h/m.wasm")).unwrap();
    let error = scan(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains("/h: ") && error.contains("symbolic link"),
        "{error}"
    );
}
