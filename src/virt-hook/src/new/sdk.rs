//! Where a new Rust project gets hooks-sdk from.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

const SDK: &str = "hooks-sdk";
/// Cargo takes every later one that is compatible.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION_MAJOR"),
    ".",
    env!("CARGO_PKG_VERSION_MINOR")
);

/// Where this program was built; its own machine alone still has that.
const BUILT_IN: &str = env!("CARGO_MANIFEST_DIR");

/// Where the SDK comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sdk {
    /// A directory.
    Path(String),
    /// The package registry.
    Published,
}

impl Sdk {
    /// The one that is told, else that of a source tree around this program, or around the current
    /// directory, or in which this program was built; else the published one.
    pub(super) fn find(told: Option<&Path>) -> Result<Self> {
        if let Some(path) = told {
            return Self::at(sdk_at(path)?);
        }
        let program = std::env::current_exe().ok();
        let here = std::env::current_dir().ok();
        let places = [program, here, Some(PathBuf::from(BUILT_IN))];
        let mut trees = places.into_iter().flatten();
        match trees.find_map(|place| source_tree(&place)) {
            Some(path) => Self::at(path),
            None => Ok(Self::Published),
        }
    }

    fn at(path: PathBuf) -> Result<Self> {
        let path = path.into_os_string().into_string();
        let path = path.map_err(|path| anyhow!("{}: it is not UTF-8", Path::new(&path).display()));
        path.map(Self::Path)
    }

    /// The right side of the dependency in `Cargo.toml`.
    pub(super) fn dependency(&self) -> String {
        match self {
            Self::Path(path) => format!("{{ path = {path:?} }}"),
            Self::Published => format!("{VERSION:?}"),
        }
    }
}

impl fmt::Display for Sdk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.write_str(path),
            Self::Published => write!(f, "version {VERSION} of the package registry"),
        }
    }
}

fn sdk_at(path: &Path) -> Result<PathBuf> {
    let path = path
        .canonicalize()
        .with_context(|| path.display().to_string())?;
    if !path.join("Cargo.toml").is_file() {
        bail!(
            "{}: no Cargo.toml there: give the directory of hooks-sdk",
            path.display()
        );
    }
    Ok(path)
}

/// The SDK of the source tree that something lies in.
fn source_tree(place: &Path) -> Option<PathBuf> {
    let above = place.ancestors().map(|directory| directory.join(SDK));
    let mut above = above.filter(|sdk| sdk.join("wit").is_dir());
    above.find_map(|sdk| sdk_at(&sdk).ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_program_of_a_source_tree_knows_its_sdk() {
        let tree = tempfile::tempdir().unwrap();
        let program = tree.path().join("target/debug/virt-hook");
        assert_eq!(source_tree(&program), None);
        let sdk = tree.path().join(SDK);
        std::fs::create_dir_all(sdk.join("wit")).unwrap();
        std::fs::write(sdk.join("Cargo.toml"), "").unwrap();
        assert_eq!(source_tree(&program), Some(sdk.canonicalize().unwrap()));
        let told = Sdk::find(Some(&sdk)).unwrap().dependency();
        assert!(
            told.starts_with("{ path = \"/") && told.ends_with("hooks-sdk\" }"),
            "{told}"
        );
    }

    #[test]
    fn what_is_no_sdk_is_named() {
        let error = Sdk::find(Some(Path::new("/nonexistent"))).unwrap_err();
        assert!(error.to_string().contains("/nonexistent"), "{error}");
        let published = Sdk::Published;
        assert!(published.to_string().contains(VERSION) && VERSION.split('.').count() == 2);
        assert_eq!(published.dependency(), format!("\"{VERSION}\""));
    }
}
