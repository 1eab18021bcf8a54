//! Where a new Rust project gets hooks-sdk from.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const SDK: &str = "hooks-sdk";
/// Cargo takes every later one that is compatible.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION_MAJOR"),
    ".",
    env!("CARGO_PKG_VERSION_MINOR")
);

/// The right side of the dependency in `Cargo.toml`.
pub(super) fn dependency(told: Option<&Path>) -> Result<String> {
    let found = match told {
        Some(path) => Some(sdk_at(path)?),
        None => std::env::current_exe()
            .ok()
            .and_then(|program| source_tree(&program)),
    };
    let Some(path) = found else {
        return Ok(format!("{VERSION:?}"));
    };
    let path = path
        .to_str()
        .context("the path of hooks-sdk is not UTF-8")?;
    Ok(format!("{{ path = {path:?} }}"))
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

/// The SDK of the source tree that a program was built in.
fn source_tree(program: &Path) -> Option<PathBuf> {
    let above = program.ancestors().map(|directory| directory.join(SDK));
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
        let told = dependency(Some(&sdk)).unwrap();
        assert!(
            told.starts_with("{ path = \"/") && told.ends_with("hooks-sdk\" }"),
            "{told}"
        );
    }

    #[test]
    fn what_is_no_sdk_is_named() {
        let error = dependency(Some(Path::new("/nonexistent"))).unwrap_err();
        assert!(error.to_string().contains("/nonexistent"), "{error}");
        assert_eq!(VERSION.split('.').count(), 2);
    }
}
