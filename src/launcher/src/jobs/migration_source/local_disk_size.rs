//! The size of local disks, on which a migration's completion timeout depends.

use std::fs;
use std::path::Path;

/// Maximum depth of directories that are read; KubeVirt's are not that deep.
const MAX_DEPTH: usize = 16;

/// The total size of the files below a directory, in bytes; 0 if the directory does not exist. Unreadable files do not
/// count. Blocking.
pub(super) fn total_file_size(directory: &Path) -> u64 {
    size_below(directory, MAX_DEPTH)
}

fn size_below(directory: &Path, depth: usize) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() && depth > 0 => size_below(&entry.path(), depth - 1),
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => 0,
    });
    sizes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_subdirectories_count() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("a/b")).unwrap();
        fs::write(directory.path().join("a/b/disk.img"), [0; 7]).unwrap();
        fs::write(directory.path().join("x"), [0; 3]).unwrap();
        std::os::unix::fs::symlink("/", directory.path().join("loop")).unwrap();
        assert_eq!(total_file_size(directory.path()), 10);
        assert_eq!(total_file_size(&directory.path().join("none")), 0);
    }
}
