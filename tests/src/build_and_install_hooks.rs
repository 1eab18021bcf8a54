//! Builds hooks for WebAssembly and installs them in a pod.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use crate::binaries::{binary, cargo, is_prebuilt, target_dir, workspace};

/// An example hook in Rust.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Example {
    /// The directory of the crate.
    pub directory: PathBuf,
    /// The name of its package, like `smbios-hook`.
    pub package: String,
}

/// The packages under `examples-hooks/`, sorted.
pub fn examples() -> Result<Vec<Example>> {
    let parent = workspace().join("examples-hooks");
    let mut examples = Vec::new();
    for entry in fs::read_dir(&parent).with_context(|| format!("{}", parent.display()))? {
        let directory = entry?.path();
        let manifest = directory.join("Cargo.toml");
        if !manifest.is_file() {
            continue;
        }
        let text =
            fs::read_to_string(&manifest).with_context(|| format!("{}", manifest.display()))?;
        let name = text.lines().find_map(|line| line.strip_prefix("name = \""));
        let package = name
            .and_then(|name| name.strip_suffix('"'))
            .with_context(|| format!("{} names no package", manifest.display()))?
            .to_owned();
        examples.push(Example { directory, package });
    }
    examples.sort();
    Ok(examples)
}

/// The module of one example hook (`smbios-hook`, `cloud-init-hook`), built first unless `TESTS_PREBUILT` is set.
pub fn example(package: &str) -> Result<PathBuf> {
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    let hooks = target_dir().join("hooks");
    if !is_prebuilt() {
        BUILT
            .get_or_init(|| build(&hooks).map_err(|error| format!("{error:#}")))
            .clone()
            .map_err(anyhow::Error::msg)?;
    }
    let module = built_module(&hooks, package);
    if !module.is_file() {
        bail!(
            "{} is not built; unset TESTS_PREBUILT, or build it as scripts/test does",
            module.display()
        );
    }
    Ok(module)
}

/// The module of a hook below `tests/rust-hooks`, built first.
pub fn rust_hook(package: &str) -> Result<PathBuf> {
    let hooks = target_dir().join("hooks");
    build_packages(&hooks, &[package])?;
    Ok(built_module(&hooks, package))
}

fn built_module(hooks: &Path, package: &str) -> PathBuf {
    hooks
        .join("wasm32-wasip2/hook")
        .join(format!("{}.wasm", package.replace('-', "_")))
}

fn build(target: &Path) -> Result<()> {
    let examples = examples()?;
    let packages: Vec<&str> = examples
        .iter()
        .map(|example| example.package.as_str())
        .collect();
    build_packages(target, &packages)
}

fn build_packages(target: &Path, packages: &[&str]) -> Result<()> {
    let target = target.to_string_lossy();
    let mut arguments = vec![
        "build",
        "--profile",
        "hook",
        "--target",
        "wasm32-wasip2",
        "--target-dir",
        target.as_ref(),
    ];
    for package in packages {
        arguments.extend(["-p", package]);
    }
    cargo(&arguments)
}

/// The environment variables with which a Makefile uses this workspace's Go and downloads nothing.
pub fn go_environment() -> Result<[(&'static str, PathBuf); 6]> {
    let target = target_dir();
    let go = target.join("go/bin/go");
    if !go.is_file() {
        bail!("{} is missing: run scripts/setup", go.display());
    }
    Ok([
        ("GO", go),
        ("GOCACHE", target.join("go-cache")),
        ("GOPATH", target.join("go-path")),
        ("GOENV", "off".into()),
        ("GOPROXY", "off".into()),
        ("GOTOOLCHAIN", "local".into()),
    ])
}

/// The module `name` of a hook in Python, C or Go, built by the Makefile of `directory` (below the workspace).
pub fn build_with_make(directory: &str, makefile: &str, name: &str) -> Result<PathBuf> {
    let directory = workspace().join(directory);
    let has = |file: &str| directory.join(file).is_file();
    let python = target_dir().join("python");
    if has("hook.py") && !python.join("bin/componentize-py").is_file() {
        bail!(
            "{} has no componentize-py: run scripts/setup",
            python.display()
        );
    }
    let module = format!("build/{name}.wasm");
    let mut make = Command::new("make");
    if has("go.mod") {
        make.envs(go_environment()?);
    }
    let output = make
        .arg("-C")
        .arg(&directory)
        .args(["-f", makefile, &module])
        .arg(format!("NAME={name}"))
        .arg(format!("VIRT_HOOK={}", binary("virt-hook")?.display()))
        .arg(format!("HOOK_VENV={}", python.display()))
        .output()
        .context("make cannot be run; scripts/setup installs it")?;
    if !output.status.success() {
        bail!(
            "{} is not built (scripts/setup installs what it takes): {}\n{}",
            directory.display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(directory.join(module))
}

/// Installs `module` in `hooks_dir/name/` as the contract requires: by a rename, so that it is never incomplete.
pub fn install(hooks_dir: &Path, name: &str, module: &Path) -> Result<()> {
    install_bytes(
        hooks_dir,
        name,
        &fs::read(module).with_context(|| format!("{}", module.display()))?,
    )
}

/// As [`install`], for bytes in memory, which need not be a module.
pub fn install_bytes(hooks_dir: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let directory = hooks_dir.join(name);
    fs::create_dir_all(&directory).with_context(|| format!("{}", directory.display()))?;
    let partial = directory.join(".arriving");
    fs::write(&partial, bytes).with_context(|| format!("{}", partial.display()))?;
    let module_path = directory.join(format!("{name}.wasm"));
    fs::rename(&partial, &module_path).with_context(|| format!("{}", module_path.display()))
}
