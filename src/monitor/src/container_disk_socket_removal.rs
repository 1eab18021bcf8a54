//! Removes the sockets of container disks, so that the containers that wait for them end.

use std::fs;
use std::io;
use std::path::Path;

/// Removes every `*.sock` in the directory. After a failure the others are removed too, and the first error is
/// returned.
pub(crate) fn remove(directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| with_path(directory, &error))?,
    };
    let sockets = entries.flatten().map(|entry| entry.path()).filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "sock")
    });
    let removed: Vec<io::Result<()>> = sockets
        .map(|path| fs::remove_file(&path).map_err(|error| with_path(&path, &error)))
        .collect();
    removed.into_iter().collect()
}

fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_removed_and_images_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["disk_0.sock", "kernel-boot.sock", "disk_0.img"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        remove(directory.path()).unwrap();
        remove(directory.path()).unwrap();
        let kept: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(kept, ["disk_0.img"]);
        remove(Path::new("/nonexistent")).unwrap();
    }
}
