//! The directories of this machine that hooks may read: only those that the command line names.
//!
//! A module, the policy of a test case and a record can all be a stranger's, and name any directory of the user. What a hook
//! reads can be in what the verb prints.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};

use crate::output_file::shell_quoted;

/// The option of the verbs that can let hooks read directories.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct GrantedDirs {
    /// A directory that hooks may read, if they declare it or one in it. Without it they read none, unless --policy
    /// names one with `allow.dirs`. May be repeated
    #[arg(
        id = "grant_dir",
        long = "grant-dir",
        value_name = "DIR",
        value_parser = PathBufValueParser::new().try_map(GrantedDir::new)
    )]
    dirs: Vec<GrantedDir>,
}

/// The absolute path of an existing directory, with links followed. It is UTF-8, as paths in policies are.
#[derive(Debug, Clone)]
struct GrantedDir(String);

/// Why no directory can be granted at a path.
#[derive(Debug, thiserror::Error)]
enum GrantError {
    #[error("{0}")]
    Unresolved(#[from] io::Error),
    #[error("it is not a directory")]
    NoDirectory,
    #[error("its path is not UTF-8, as paths in policies are")]
    NotUtf8,
}

impl GrantedDir {
    fn new(path: PathBuf) -> Result<Self, GrantError> {
        let resolved = fs::canonicalize(path)?;
        if !resolved.is_dir() {
            return Err(GrantError::NoDirectory);
        }
        let text = resolved.into_os_string().into_string();
        text.map(Self).map_err(|_| GrantError::NotUtf8)
    }
}

impl GrantedDirs {
    /// Whether a directory, with links followed, is one of these or in one of these.
    pub(crate) fn covers(&self, dir: &Path) -> bool {
        let resolved = resolved(dir);
        resolved.is_some_and(|dir| self.dirs.iter().any(|granted| dir.starts_with(&granted.0)))
    }

    /// The directories that a policy has to name so that hooks can open `dirs`, which these cover: these, out of which no
    /// link is followed, and those of `dirs` that have other names here, because a link leads to them.
    pub(crate) fn roots<'a>(&'a self, dirs: impl Iterator<Item = &'a Path>) -> BTreeSet<&'a str> {
        let named = || self.dirs.iter().map(|granted| granted.0.as_str());
        let has_other_name = |dir: &&Path| !named().any(|granted| dir.starts_with(granted));
        let others = dirs.filter(has_other_name).filter_map(Path::to_str);
        named().chain(others).collect()
    }
}

/// The path with links followed as far as it exists; `None` if a link in it leads nowhere, or if it goes back up from what
/// does not exist.
fn resolved(dir: &Path) -> Option<PathBuf> {
    let mut ancestors = dir.ancestors();
    let existing = ancestors.find(|ancestor| ancestor.symlink_metadata().is_ok())?;
    let below = dir.strip_prefix(existing).ok()?;
    let is_below = |part| matches!(part, Component::Normal(_));
    let resolved = fs::canonicalize(existing).ok()?;
    below
        .components()
        .all(is_below)
        .then(|| resolved.join(below))
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
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use super::*;

    fn granted(dirs: &[PathBuf]) -> GrantedDirs {
        let dirs = dirs.iter().map(|dir| GrantedDir::new(dir.clone()).unwrap());
        GrantedDirs {
            dirs: dirs.collect(),
        }
    }

    /// A directory with `data`, in it `teams`, a link `link` out of it and a link `nowhere`, and beside it
    /// `data-of-others` and the link `alias` to it.
    fn directories() -> tempfile::TempDir {
        let temp_dir = tempfile::tempdir().unwrap();
        let path = |name: &str| temp_dir.path().join(name);
        fs::create_dir_all(path("data/teams")).unwrap();
        fs::create_dir(path("data-of-others")).unwrap();
        symlink(path("data-of-others"), path("data/link")).unwrap();
        symlink(path("missing"), path("data/nowhere")).unwrap();
        symlink(path("data"), path("alias")).unwrap();
        temp_dir
    }

    #[test]
    fn a_directory_is_covered_by_where_it_is_and_not_by_its_name() {
        let temp_dir = directories();
        let path = |name: &str| temp_dir.path().join(name);
        for by in ["data", "alias", "data/../data", "data/."] {
            let granted = granted(&[path(by)]);
            for (name, expected) in [
                ("data", true),
                ("data/", true),
                ("data/teams", true),
                ("alias/teams", true),
                ("data/missing", true),
                ("data/teams/../teams", true),
                ("data-of-others", false),
                ("data/link", false),
                ("data/link/x", false),
                ("data/nowhere", false),
                ("data/nowhere/x", false),
                ("data/missing/../../data-of-others", false),
                ("data/..", false),
                ("data/../data-of-others", false),
                // A hook that declares more than is granted would read less than it expects.
                ("", false),
            ] {
                assert_eq!(granted.covers(&path(name)), expected, "{name} by {by}");
            }
        }
        assert!(!GrantedDirs::default().covers(&path("data")));
        assert!(granted(&["/".into()]).covers(&path("data/link")));
    }

    #[test]
    fn roots_have_the_names_that_hooks_declare() {
        let temp_dir = directories();
        let base = temp_dir.path().canonicalize().unwrap();
        let path = |name: &str| base.join(name);
        let granted = granted(&[path("alias")]);
        for (declared, others) in [
            ("data/teams", &[][..]),
            ("data", &[]),
            ("alias/teams", &["alias/teams"]),
        ] {
            let declared = path(declared);
            let others = others.iter().map(|name| path(name));
            let expected: BTreeSet<_> = others.chain([path("data")]).collect();
            let roots = granted.roots([&*declared].into_iter());
            let roots: BTreeSet<_> = roots.into_iter().map(PathBuf::from).collect();
            assert_eq!(roots, expected, "{}", declared.display());
        }
    }

    #[test]
    fn only_an_existing_directory_with_a_name_in_utf_8_can_be_granted() {
        let temp_dir = directories();
        let path = |name: &[u8]| temp_dir.path().join(OsStr::from_bytes(name));
        fs::write(path(b"file"), "").unwrap();
        fs::create_dir(path(b"no-utf8-\xff")).unwrap();
        symlink(path(b"no-utf8-\xff"), path(b"link-to-no-utf8")).unwrap();
        for (name, part) in [
            (&b"file"[..], "not a directory"),
            (b"missing", "No such file"),
            (b"data/nowhere", "No such file"),
            (b"no-utf8-\xff", "not UTF-8"),
            (b"link-to-no-utf8", "not UTF-8"),
            (b"file/x", "Not a directory"),
        ] {
            let error = GrantedDir::new(path(name)).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
        assert!(GrantedDir::new(PathBuf::new()).is_err());
    }
}
