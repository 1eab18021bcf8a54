//! The programs under test, as this workspace builds them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

/// The workspace's root directory.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}

/// The profile directory (`target/debug`) that the running test or demo lies in.
pub fn profile_dir() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let directory = program.parent().unwrap_or(Path::new("."));
    match directory.file_name() {
        Some(name) if name == "deps" => directory.parent().unwrap_or(directory).to_owned(),
        _ => directory.to_owned(),
    }
}

/// Cargo's target directory, above [`profile_dir`].
pub fn target_dir() -> PathBuf {
    let profile = profile_dir();
    profile.parent().unwrap_or(&profile).to_owned()
}

/// Whether everything was built before this program was started (`make test` and `make demo` do).
pub(crate) fn prebuilt() -> bool {
    std::env::var_os("TESTS_PREBUILT").is_some()
}

/// The path of one binary of this workspace, built first unless `TESTS_PREBUILT` says that it is.
///
/// Cargo gives integration tests the binaries of their own package only, so they are built here, once per process.
pub fn binary(name: &str) -> Result<PathBuf> {
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    if !prebuilt() {
        BUILT
            .get_or_init(|| build().map_err(|error| format!("{error:#}")))
            .clone()
            .map_err(anyhow::Error::msg)?;
    }
    let path = profile_dir().join(name);
    if !path.is_file() {
        bail!(
            "{} is not built; run 'cargo build --bins' or unset TESTS_PREBUILT",
            path.display()
        );
    }
    Ok(path)
}

/// The target of a program that is one file and needs nothing beside it.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// `virt-hook`, linked statically; built first unless `TESTS_PREBUILT` says that it is.
pub fn static_virt_hook() -> Result<PathBuf> {
    if !prebuilt() {
        cargo(&["build", "--package", "virt-hook", "--target", STATIC])
            .context("scripts/setup installs what a static build needs")?;
    }
    let path = target_dir().join(STATIC).join("debug/virt-hook");
    if !path.is_file() {
        bail!(
            "{} is not built; unset TESTS_PREBUILT, or build it as scripts/test does",
            path.display()
        );
    }
    Ok(path)
}

fn build() -> Result<()> {
    // The whole workspace, as scripts/test does: another choice of packages has other features to compile for.
    let mut arguments = vec!["build", "--workspace", "--bins"];
    if !cfg!(debug_assertions) {
        arguments.push("--release");
    }
    cargo(&arguments)
}

/// Runs cargo in the workspace and fails with its own words.
pub(crate) fn cargo(arguments: &[&str]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .current_dir(workspace())
        .env("CARGO_TARGET_DIR", target_dir())
        .output()
        .with_context(|| format!("cargo {}", arguments.join(" ")))?;
    if !output.status.success() {
        bail!(
            "cargo {}: {}\n{}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}
