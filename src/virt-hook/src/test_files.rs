//! Files of the tests of module directories: empty files below a temporary directory, and named pipes.

use std::fs;
use std::path::Path;

/// A temporary directory with empty files at these paths.
pub(crate) fn layout(files: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for file in files {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    root
}

pub(crate) fn mkfifo(path: &Path) {
    let mkfifo = std::process::Command::new("mkfifo").arg(path).status();
    assert!(mkfifo.unwrap().success());
}
