//! Directories and artifacts that are not trusted.

use std::os::unix::fs::{FileExt, PermissionsExt};

use super::*;

#[test]
fn only_a_private_directory_is_trusted() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("artifacts");
    ArtifactCache::open(Some(&dir)).unwrap();
    assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o750)).unwrap();
    let error = ArtifactCache::open(Some(&dir)).err().unwrap();
    assert!(error.to_string().contains("mode 0750"), "{error}");
    let link = outer.path().join("link");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    assert!(ArtifactCache::open(Some(&link)).is_err());
}

#[test]
fn a_directory_that_replaces_the_checked_one_is_not_used() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("a");
    let artifacts = ArtifactCache::open(Some(&dir)).unwrap();
    put(&artifacts, "abc-1.cwasm", b"checked");
    fs::rename(&dir, outer.path().join("b")).unwrap();
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("abc-1.cwasm"), "planted").unwrap();
    fs::write(dir.join("abd-1.cwasm"), "planted").unwrap();
    let artifact = artifacts.open_artifact("abc-1.cwasm").unwrap();
    assert_eq!(io::read_to_string(artifact).unwrap(), "checked");
    assert!(!artifacts.has_module("abd"));
    put(&artifacts, "abe-1.cwasm", b"compiled");
    assert!(outer.path().join("b/abe-1.cwasm").exists());
}

#[test]
fn links_and_files_that_others_may_change_are_not_used() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("a");
    let artifacts = ArtifactCache::open(Some(&dir)).unwrap();
    put(&artifacts, "abc-1.cwasm", b"code");
    std::os::unix::fs::symlink("abc-1.cwasm", dir.join("link.cwasm")).unwrap();
    assert!(artifacts.open_artifact("link.cwasm").is_err());
    fs::set_permissions(dir.join("abc-1.cwasm"), fs::Permissions::from_mode(0o620)).unwrap();
    let error = artifacts.open_artifact("abc-1.cwasm").err().unwrap();
    assert!(error.to_string().contains("mode 0620"), "{error}");
}

#[test]
fn an_artifact_that_is_not_published_is_removed() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("a");
    let artifacts = ArtifactCache::open(Some(&dir)).unwrap();
    put(&artifacts, "abc-1.cwasm", b"");
    drop(artifacts.create_partial().unwrap());
    assert!(artifacts.has_module("abc") && !artifacts.has_module("abd"));
    assert_eq!(fs::read_dir(dir).unwrap().count(), 1);
}

fn put(artifacts: &ArtifactCache, name: &str, code: &[u8]) {
    let partial = artifacts.create_partial().unwrap();
    partial.file.write_all_at(code, 0).unwrap();
    partial.publish(name).unwrap();
}
