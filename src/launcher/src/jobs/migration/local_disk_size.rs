//! The size of local disks, which take part in a migration's deadline.

use std::fs;
use std::path::Path;

/// Directories deeper than KubeVirt makes them are not read.
const DEPTH: usize = 16;

/// The bytes of the files below a directory; 0 if there is none. Blocking. What cannot be read does not count.
pub(super) fn of_files(directory: &Path) -> u64 {
    below(directory, DEPTH)
}

fn below(directory: &Path, depth: usize) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() && depth > 0 => below(&entry.path(), depth - 1),
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => 0,
    });
    sizes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn files_in_all_directories_count() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("a/b")).unwrap();
        fs::write(directory.path().join("a/b/disk.img"), [0; 7]).unwrap();
        fs::write(directory.path().join("x"), [0; 3]).unwrap();
        std::os::unix::fs::symlink("/", directory.path().join("loop")).unwrap();
        assert_eq!(of_files(directory.path()), 10);
        assert_eq!(of_files(&directory.path().join("none")), 0);
    }
}
