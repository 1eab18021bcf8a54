//! The directories of this machine that hooks may read: only those that the command line names.
//!
//! A module, the policy of a test case and a record can all be a stranger's, and name any directory of the user. What a hook
//! reads can be in what the verb prints.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;

use crate::shell_quoted_path::shell_quoted;

/// The option of the verbs that can let hooks read directories.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct GrantedDirs {
    /// A directory that hooks may read, if they declare it or one in it. Without it they read none, unless --policy
    /// names one with `allow.dirs`. May be repeated
    #[arg(id = "grant_dir", long = "grant-dir", value_name = "DIR")]
    dirs: Vec<PathBuf>,
}

impl GrantedDirs {
    /// The absolute paths.
    pub(crate) fn absolute(&self) -> Result<Vec<PathBuf>> {
        let absolute = |dir: &PathBuf| {
            let path = std::path::absolute(dir);
            path.with_context(|| format!("--grant-dir {}", dir.display()))
        };
        self.dirs.iter().map(absolute).collect()
    }

    /// Whether a directory is one of these, or in one of these; links are followed.
    pub(crate) fn contain(&self, dir: &Path) -> Result<bool> {
        let resolved = |dir: &Path| fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
        let dir = resolved(dir);
        let granted = self.absolute()?;
        Ok(granted
            .iter()
            .any(|granted| dir.starts_with(resolved(granted))))
    }

    /// Whether a hook that declares a directory gets at least a part of it.
    pub(crate) fn overlap(&self, dir: &Path) -> Result<bool> {
        let granted = self.absolute()?;
        Ok(granted
            .iter()
            .any(|granted| dir.starts_with(granted) || granted.starts_with(dir)))
    }
}

/// The error about a directory that `who` wants, such as `hook a` or `policy.yaml`, and that the command line does not name.
pub(crate) fn not_granted(who: &str, dir: &Path) -> anyhow::Error {
    anyhow!(
        "{who} names the directory {}, which the command line does not: give --grant-dir {}, if hooks may read it",
        dir.display(),
        shell_quoted(dir)
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn directories_below_a_granted_one_are_granted_and_links_out_of_it_are_not() {
        let temp_dir = tempfile::tempdir().unwrap();
        let path = |name: &str| temp_dir.path().join(name);
        fs::create_dir_all(path("data/teams")).unwrap();
        fs::create_dir(path("data-of-others")).unwrap();
        symlink(path("data-of-others"), path("data/link")).unwrap();
        let granted = GrantedDirs {
            dirs: vec![path("data")],
        };
        for (name, expected) in [
            ("data", true),
            ("data/teams", true),
            ("data/missing", true),
            ("data-of-others", false),
            ("data/link", false),
            ("", false),
        ] {
            assert_eq!(granted.contain(&path(name)).unwrap(), expected, "{name}");
        }
        assert!(!GrantedDirs::default().contain(&path("data")).unwrap());
        for (name, expected) in [("", true), ("data/teams", true), ("data-of-others", false)] {
            assert_eq!(granted.overlap(&path(name)).unwrap(), expected, "{name}");
        }
    }
}
