//! The files of a project whose changes start another run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Directories that builds write; changes in them do not count.
const BUILD_DIRECTORIES: [&str; 3] = ["target", "build", "__pycache__"];
/// Files that builds write; their changes do not count.
const LOCK_FILES: [&str; 2] = ["Cargo.lock", "go.sum"];
/// Maximum number of files that are watched; no project of hooks has so many.
const MAX_FILES: usize = 20_000;

/// Modification time and size of each file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProjectFiles(BTreeMap<PathBuf, (Option<SystemTime>, u64)>);

impl ProjectFiles {
    /// Lists the files of a project, without hidden files, backups of editors and build output. Links are not followed.
    pub(super) fn list(directory: &Path) -> Self {
        let mut files = Self::default();
        let mut pending = vec![directory.to_owned()];
        while let Some(inside) = pending.pop() {
            // A directory that is just being removed has no files.
            for entry in fs::read_dir(&inside).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let Ok(metadata) = entry.metadata() else {
                    continue;
                };
                if name.starts_with('.') || name.ends_with('~') || files.0.len() >= MAX_FILES {
                    continue;
                }
                if !metadata.is_dir() && !LOCK_FILES.contains(&&*name) {
                    let state = (metadata.modified().ok(), metadata.len());
                    files.0.insert(entry.path(), state);
                } else if metadata.is_dir() && !BUILD_DIRECTORIES.contains(&&*name) {
                    pending.push(entry.path());
                }
            }
        }
        files
    }

    /// The files that are new, gone or different, relative to the directory.
    pub(super) fn changed(&self, later: &Self, directory: &Path) -> Vec<PathBuf> {
        let mut paths: Vec<_> = self.0.keys().chain(later.0.keys()).collect();
        paths.sort();
        paths.dedup();
        let differs = |path: &&&PathBuf| self.0.get(**path) != later.0.get(**path);
        let changed = paths.iter().filter(differs);
        changed
            .map(|path| path.strip_prefix(directory).unwrap_or(path).to_owned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_sources_and_cases_count_and_build_output_does_not() {
        let temp_dir = tempfile::tempdir().unwrap();
        let temp_dir = temp_dir.path();
        let write = |name: &str, text: &str| {
            fs::create_dir_all(temp_dir.join(name).parent().unwrap()).unwrap();
            fs::write(temp_dir.join(name), text).unwrap();
        };
        for name in ["main.go", "cases/a/vmi.yaml", "gone.txt"] {
            write(name, "x");
        }
        let before = ProjectFiles::list(temp_dir);
        for name in [
            "target/a/b",
            "build/x.wasm",
            ".git/x",
            "main.go~",
            "Cargo.lock",
            "a/__pycache__/b",
        ] {
            write(name, "x");
        }
        assert_eq!(ProjectFiles::list(temp_dir), before);
        write("cases/a/vmi.yaml", "longer");
        write("cases/b/vmi.yaml", "new");
        fs::remove_file(temp_dir.join("gone.txt")).unwrap();
        let changed = before.changed(&ProjectFiles::list(temp_dir), temp_dir);
        let expected = ["cases/a/vmi.yaml", "cases/b/vmi.yaml", "gone.txt"];
        assert_eq!(changed, expected.map(PathBuf::from));
    }
}
