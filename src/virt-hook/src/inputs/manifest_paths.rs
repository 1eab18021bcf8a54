//! The files that options for several manifests name: files, directories with manifests, and patterns.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The paths of manifests.
#[derive(Debug, Default)]
pub(crate) struct ManifestPaths {
    /// Files that are named: each must have a VM.
    pub(crate) files: Vec<PathBuf>,
    /// Files of directories, which may have none.
    pub(crate) of_directories: Vec<PathBuf>,
}

impl ManifestPaths {
    /// The files of paths. A directory stands for the `*.yaml`, `*.yml` and `*.json` in it, and a name with `*` or `?` for the
    /// files that match it, if no file has just this name.
    pub(crate) fn find(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut found = Self::default();
        for path in paths {
            if path.is_dir() {
                found.of_directories.extend(in_directory(path)?);
            } else if let Some(pattern) = pattern(path) {
                found.files.extend(matching(path, pattern)?);
            } else {
                found.files.push(path.clone());
            }
        }
        Ok(found)
    }
}

/// The manifests in a directory, in the order of their names.
pub(crate) fn in_directory(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = entries(directory)?;
    paths.retain(|path| has_manifest_extension(path) && path.is_file());
    match paths.is_empty() {
        true => Err(anyhow!(
            "{}: no *.yaml, *.yml or *.json in it",
            directory.display()
        )),
        false => Ok(paths),
    }
}

/// Whether a path ends as those of manifests do.
pub(crate) fn has_manifest_extension(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
}

/// The paths of a directory's entries, sorted.
fn entries(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// The file name of a path that is a pattern.
fn pattern(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    (name.contains(['*', '?']) && path.symlink_metadata().is_err()).then_some(name)
}

fn matching(path: &Path, pattern: &str) -> anyhow::Result<Vec<PathBuf>> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let mut paths = entries(parent.unwrap_or(Path::new(".")))?;
    paths.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        path.is_file() && name.is_some_and(|name| matches(name, pattern))
    });
    match paths.is_empty() {
        true => Err(anyhow!("{}: no file matches it", path.display())),
        false => Ok(paths),
    }
}

/// Whether a name matches a pattern, in which `*` stands for any text and `?` for one character.
fn matches(name: &str, pattern: &str) -> bool {
    let (name, pattern): (Vec<char>, Vec<char>) =
        (name.chars().collect(), pattern.chars().collect());
    // The lengths of the pattern's beginnings that match the name so far.
    let mut matched = vec![false; pattern.len() + 1];
    matched[0] = true;
    for (at, expected) in pattern.iter().enumerate() {
        matched[at + 1] = matched[at] && *expected == '*';
    }
    for character in name {
        let mut next = vec![false; pattern.len() + 1];
        for (at, expected) in pattern.iter().enumerate() {
            next[at + 1] = match expected {
                '*' => next[at] || matched[at + 1],
                '?' => matched[at],
                expected => matched[at] && *expected == character,
            };
        }
        matched = next;
    }
    matched[pattern.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns() {
        for (name, pattern, expected) in [
            ("web.yaml", "*.yaml", true),
            ("web.yaml", "w?b.*", true),
            ("web.yaml", "*", true),
            ("web.yaml", "*.yml", false),
            ("web.yaml", "web.yaml?", false),
            ("a-b-c.yaml", "a*b*.yaml", true),
            ("größe.yaml", "gr??e.yaml", true),
            ("", "*", true),
            ("", "?", false),
        ] {
            assert_eq!(matches(name, pattern), expected, "{name} {pattern}");
        }
    }

    #[test]
    fn directories_and_patterns_stand_for_files() {
        let temp_dir = tempfile::tempdir().unwrap();
        let path = |name: &str| temp_dir.path().join(name);
        for name in ["b.yaml", "a.json", "c.txt"] {
            fs::write(path(name), "").unwrap();
        }
        fs::create_dir(path("sub.yaml")).unwrap();
        let found = ManifestPaths::find(&[
            temp_dir.path().to_owned(),
            path("*.yaml"),
            path("none.yaml"),
        ])
        .unwrap();
        assert_eq!(found.of_directories, [path("a.json"), path("b.yaml")]);
        assert_eq!(found.files, [path("b.yaml"), path("none.yaml")]);
        let nothing = ManifestPaths::find(&[path("*.yml")])
            .unwrap_err()
            .to_string();
        assert!(nothing.ends_with("*.yml: no file matches it"), "{nothing}");
        assert!(ManifestPaths::find(&[path("sub.yaml")]).is_err());
    }
}
