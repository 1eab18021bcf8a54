//! The paths of the programs under test, which are built on demand.

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

/// Whether `make` runs this program: it has built everything before, and installed what `scripts/setup` installs.
pub(crate) fn is_prebuilt() -> bool {
    std::env::var_os("TESTS_PREBUILT").is_some()
}

/// The path of one binary of this workspace, built first unless `TESTS_PREBUILT` is set.
///
/// Cargo builds only the binaries of the same package for an integration test, so this builds all of them, once per
/// process.
pub fn binary(name: &str) -> Result<PathBuf> {
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    if !is_prebuilt() {
        BUILT
            .get_or_init(|| build().map_err(|error| format!("{error:#}")))
            .clone()
            .map_err(anyhow::Error::msg)?;
    }
    let path = profile_dir().join(name);
    if !path.is_file() {
        bail!(
            "{} is not built; unset TESTS_PREBUILT, or build it as the script that sets it does",
            path.display()
        );
    }
    Ok(path)
}

/// The target triple of a program that needs no shared library.
const STATIC_TARGET: &str = "x86_64-unknown-linux-musl";

/// The path of `virt-hook`, linked statically; built first unless `TESTS_PREBUILT` is set.
pub fn static_virt_hook() -> Result<PathBuf> {
    if !is_prebuilt() {
        cargo(&["build", "--package", "virt-hook", "--target", STATIC_TARGET])
            .context("scripts/setup installs what a static build needs")?;
    }
    let path = target_dir().join(STATIC_TARGET).join("debug/virt-hook");
    if !path.is_file() {
        bail!(
            "{} is not built; unset TESTS_PREBUILT, or build it as scripts/test does",
            path.display()
        );
    }
    Ok(path)
}

/// Copies a program with `cp`. If this process wrote it, a child that another test forks at that moment would inherit the
/// open file, and the program could not be executed (`ETXTBSY`).
pub fn copy_program(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").args([from, to]).status().context("cp")?;
    if !status.success() {
        bail!("cp {} {}: {status}", from.display(), to.display());
    }
    Ok(())
}

fn build() -> Result<()> {
    // The whole workspace, so that all tests build the programs with the same features.
    let mut arguments = vec!["build", "--workspace", "--bins"];
    if !cfg!(debug_assertions) {
        arguments.push("--release");
    }
    cargo(&arguments)
}

/// Runs cargo in the workspace. The error has cargo's standard error.
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
