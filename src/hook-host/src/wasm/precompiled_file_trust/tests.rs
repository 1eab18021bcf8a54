//! Files and directories that are not trusted for their owner, permissions or mount.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

/// The user who runs the tests stands in for root, and the mount of `temp_dir` for the program's.
pub(in crate::wasm) fn trust_in(temp_dir: &Path) -> FileTrust {
    FileTrust {
        owner: rustix::process::geteuid().as_raw(),
        mount: mount_of_path(temp_dir, AtFlags::empty()).unwrap(),
    }
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_directory_that_others_may_write_is_not_trusted_nor_its_children() {
    let temp_dir = tempfile::tempdir().unwrap();
    let trust = trust_in(temp_dir.path());
    let inner = temp_dir.path().join("a/b");
    fs::create_dir_all(&inner).unwrap();
    let link = temp_dir.path().join("link");
    symlink(&inner, &link).unwrap();
    let check = |path: &Path| {
        trust
            .check_directory(path)
            .map_err(|untrusted| untrusted.to_string())
    };
    assert_eq!(check(&link), Ok(inner.canonicalize().unwrap()));
    for (path, mode) in [
        (&inner, 0o775),
        (&inner, 0o1777),
        (&temp_dir.path().join("a"), 0o757),
    ] {
        chmod(path, mode);
        let untrusted = check(&inner).unwrap_err();
        assert!(
            untrusted.contains(&format!("mode {mode:04o}")),
            "{untrusted}"
        );
        chmod(path, 0o755);
    }
    chmod(&temp_dir.path().join("a"), 0o1777);
    assert!(check(&inner).is_ok());
    assert!(
        check(&temp_dir.path().join("none"))
            .unwrap_err()
            .contains("none")
    );
}

#[test]
fn an_open_file_is_checked_for_owner_mode_and_mount() {
    let temp_dir = tempfile::tempdir().unwrap();
    let trust = trust_in(temp_dir.path());
    let path = temp_dir.path().join("x");
    fs::write(&path, "x").unwrap();
    chmod(&path, 0o644);
    let file = File::open(&path).unwrap();
    let check = |trust: FileTrust| {
        trust
            .check_file(&file, &path)
            .map_err(|untrusted| untrusted.to_string())
    };
    assert_eq!(check(trust), Ok(()));
    let elsewhere = FileTrust {
        mount: trust.mount.wrapping_add(1),
        ..trust
    };
    assert!(
        check(elsewhere)
            .unwrap_err()
            .contains("not part of the image")
    );
    chmod(&path, 0o664);
    assert!(check(trust).unwrap_err().contains("others than root"));
    let directory = File::open(temp_dir.path()).unwrap();
    assert!(matches!(
        trust.check_file(&directory, temp_dir.path()),
        Err(Untrusted::NoFile { .. })
    ));
}

#[test]
fn files_of_other_users_are_not_trusted() {
    let temp_dir = tempfile::tempdir().unwrap();
    let trust = trust_in(temp_dir.path());
    let path = temp_dir.path().join("x");
    fs::write(&path, "x").unwrap();
    chmod(&path, 0o644);
    let untrusted_owner = if fs::metadata(&path).unwrap().uid() == ROOT {
        std::os::unix::fs::chown(&path, Some(107), None).unwrap();
        std::os::unix::fs::chown(temp_dir.path(), Some(107), None).unwrap();
        trust
    } else {
        // The user who runs the test owns the file, and another user is trusted.
        FileTrust {
            owner: trust.owner + 1,
            ..trust
        }
    };
    let file = File::open(&path).unwrap();
    for checked in [
        untrusted_owner.check_file(&file, &path),
        untrusted_owner.check_directory(temp_dir.path()).map(drop),
    ] {
        assert!(
            matches!(checked, Err(Untrusted::Owner { .. })),
            "{checked:?}"
        );
    }
}

#[test]
fn mount_of_this_program_is_found() {
    assert_eq!(FileTrust::of_this_program().unwrap().owner, ROOT);
}
