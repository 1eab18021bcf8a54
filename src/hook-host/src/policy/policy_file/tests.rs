//! Links, and files that are too large or not UTF-8.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

#[test]
fn links_are_followed_within_the_directory_only() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("inner");
    fs::create_dir_all(inner.join("..data")).unwrap();
    fs::write(inner.join("..data/p.yaml"), "a: 1").unwrap();
    fs::write(dir.path().join("out.yaml"), "a: 2").unwrap();
    symlink("..data/p.yaml", inner.join("in.yaml")).unwrap();
    symlink("../out.yaml", inner.join("out.yaml")).unwrap();
    symlink("nothing", inner.join("gone.yaml")).unwrap();
    let text = |name: &str| read_at(&inner.join(name));
    assert_eq!(text("in.yaml").unwrap().unwrap(), "a: 1");
    assert_eq!(text("none.yaml").unwrap(), None);
    let error = text("out.yaml").unwrap_err().to_string();
    assert!(error.contains("inner/out.yaml") && error.contains("within the directory"));
    assert!(text("gone.yaml").is_err());
    assert!(text("..data").is_err());
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        inner.join("pipe.yaml"),
        rustix::fs::Mode::RUSR,
    )
    .unwrap();
    let error = text("pipe.yaml").unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
}

#[test]
fn large_and_non_utf8_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.yaml");
    fs::write(&path, "#".repeat(300 << 10)).unwrap();
    assert!(
        read_at(&path)
            .unwrap_err()
            .to_string()
            .contains("262144 bytes")
    );
    fs::write(&path, b"\xff\xfe\xff").unwrap();
    assert!(read_at(&path).is_err());
}
