//! Builds a hook's crate to a module.

#[cfg(test)]
mod tests;
mod toolchain_command;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use toolchain_command::{program, run};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// With WASI imports, behind which nothing is granted.
    Wasi,
    /// Without WASI imports.
    Bare,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Target::Wasi => "wasm32-wasip2",
            Target::Bare => "wasm32-unknown-unknown",
        }
    }

    /// The linker of the first target, which is part of rustc, makes components for the second too.
    fn settings(self) -> &'static [&'static str] {
        match self {
            Target::Wasi => &[],
            Target::Bare => &["target.wasm32-unknown-unknown.linker='wasm-component-ld'"],
        }
    }
}

/// Timeout of one program. The first build compiles the SDK and its macros too.
const BUILD_TIMEOUT: Duration = Duration::from_secs(900);

/// The profile if the workspace has none: small modules, with function names.
const PROFILE: &[&str] = &[
    "profile.hook.inherits='release'",
    "profile.hook.opt-level='s'",
    "profile.hook.lto='fat'",
    "profile.hook.codegen-units=1",
    "profile.hook.strip='debuginfo'",
];

/// Why a hook was not built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A program, such as cargo, could not be started.
    Run {
        /// The program.
        program: String,
        /// The error of starting it.
        source: io::Error,
    },
    /// A program timed out and was killed.
    Deadline {
        /// The program.
        program: String,
    },
    /// The Rust toolchain cannot build WebAssembly.
    MissingTarget {
        /// The target to add with rustup.
        target: &'static str,
    },
    /// Cargo failed.
    Cargo {
        /// The crate's Cargo.toml.
        manifest: PathBuf,
        /// Cargo's message.
        message: String,
    },
    /// The crate produces no module.
    NoModule {
        /// The crate's Cargo.toml.
        manifest: PathBuf,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Run { program, source } => write!(f, "{program} cannot be run: {source}"),
            BuildError::Deadline { program } => {
                write!(
                    f,
                    "{program} did not end within {BUILD_TIMEOUT:?} and was ended"
                )
            }
            BuildError::MissingTarget { target } => write!(
                f,
                "this Rust toolchain cannot build hooks yet: run `rustup target add {target}`"
            ),
            BuildError::Cargo { manifest, message } => {
                write!(
                    f,
                    "{}: cargo does not build the hook:\n{message}",
                    manifest.display()
                )
            }
            BuildError::NoModule { manifest } => write!(
                f,
                "{}: the crate makes no module: give its [lib] crate-type = [\"cdylib\", \"rlib\"]",
                manifest.display()
            ),
        }
    }
}

impl std::error::Error for BuildError {}

/// The part of a crate that is the hook.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Library,
    Example(String),
}

impl Part {
    fn arguments(&self) -> Vec<&str> {
        match self {
            Part::Library => vec!["--lib"],
            Part::Example(name) => vec!["--example", name],
        }
    }
}

/// Builds the module of a crate and returns its path.
pub(crate) fn build(crate_dir: &Path, part: &Part, target: Target) -> Result<PathBuf, BuildError> {
    let manifest = crate_dir.join("Cargo.toml");
    require_target(crate_dir, target.name())?;
    let workspace = workspace(&manifest)?;
    let mut cargo = program("CARGO", "cargo", crate_dir);
    cargo.arg("build").args(part.arguments()).args([
        "--target",
        target.name(),
        "--profile",
        "hook",
    ]);
    cargo.args(
        target
            .settings()
            .iter()
            .flat_map(|setting| ["--config", setting]),
    );
    cargo
        .args([
            "--message-format",
            "json-render-diagnostics",
            "--manifest-path",
        ])
        .arg(&manifest);
    // Another directory than the usual one, whose lock the cargo that runs this test may hold.
    cargo
        .arg("--target-dir")
        .arg(workspace.target.join("hooks"));
    if !workspace.has_profile {
        cargo.args(PROFILE.iter().flat_map(|setting| ["--config", setting]));
    }
    let output = run(cargo)?;
    if !output.success {
        return Err(BuildError::Cargo {
            manifest,
            message: output.stderr,
        });
    }
    module(&output.stdout, &manifest).ok_or(BuildError::NoModule { manifest })
}

struct Workspace {
    target: PathBuf,
    has_profile: bool,
}

fn workspace(manifest: &Path) -> Result<Workspace, BuildError> {
    let refused = |message: String| BuildError::Cargo {
        manifest: manifest.to_owned(),
        message,
    };
    let mut cargo = program("CARGO", "cargo", manifest.parent().unwrap_or(manifest));
    cargo
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--manifest-path",
        ])
        .arg(manifest);
    let output = run(cargo)?;
    if !output.success {
        return Err(refused(output.stderr));
    }
    let metadata: Value =
        serde_json::from_str(&output.stdout).map_err(|error| refused(error.to_string()))?;
    let path = |name: &str| metadata[name].as_str().map(PathBuf::from);
    let target =
        path("target_directory").ok_or_else(|| refused("it names no target directory".into()))?;
    let root = path("workspace_root")
        .unwrap_or_default()
        .join("Cargo.toml");
    let has_profile =
        std::fs::read_to_string(root).is_ok_and(|text| text.contains("[profile.hook]"));
    Ok(Workspace {
        target,
        has_profile,
    })
}

/// The `.wasm` among the files of this crate in Cargo's messages.
fn module(messages: &str, manifest: &Path) -> Option<PathBuf> {
    let manifest = manifest.canonicalize().ok()?;
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let crate_messages = messages.filter(|message| {
        let path = message["manifest_path"]
            .as_str()
            .and_then(|path| Path::new(path).canonicalize().ok());
        message["reason"] == "compiler-artifact" && path.as_deref() == Some(&manifest)
    });
    let files = crate_messages
        .filter_map(|message| message["filenames"].as_array().cloned())
        .flatten();
    let mut paths = files.filter_map(|file| file.as_str().map(PathBuf::from));
    paths.find(|path| {
        path.extension()
            .is_some_and(|extension| extension == "wasm")
    })
}

fn require_target(crate_dir: &Path, target: &'static str) -> Result<(), BuildError> {
    let mut rustc = program("RUSTC", "rustc", crate_dir);
    rustc.args(["--print", "target-libdir", "--target", target]);
    let output = run(rustc)?;
    let installed = output.success && Path::new(output.stdout.trim()).is_dir();
    if installed {
        Ok(())
    } else {
        Err(BuildError::MissingTarget { target })
    }
}
