//! `virt-hook compile`: modules compiled ahead, for an image.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, io};

use clap::Args;
use hook_host::wasm::{CodeOrigin, PrecompileError, precompile};
use serde::Serialize;

use crate::output::{Report, Style};
use crate::temporary_directory::TemporaryDirectory;
use crate::tokio_runtime::runtime;
use crate::verb_failure::Failure;
use crate::{interactive_compile, module_discovery};

pub(crate) const HELP: &str = "\
An artifact is machine code that runs with the launcher's rights. So a launcher loads artifacts only from
a directory of its image that only root can write to: /usr/share/virt-launcher/hook-artifacts, or that of
--hook-artifacts. `virt-hook serve` loads them from /usr/share/virt-hook/hook-artifacts. The module is
still needed: its sha256 is the key of its artifact. Compile with the version that will load the artifact.

Examples:
  virt-hook compile smbios.wasm --into rootfs/usr/share/virt-launcher/hook-artifacts
  virt-hook compile hooks/ --into artifacts

Exit codes:
  0  all modules are compiled
  2  invalid command line, or an unusable file: a module is not a hook, or exceeds
     the limits of compiling
  3  the artifacts could not be written";

/// Arguments of `virt-hook compile`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A module, or a directory that holds modules
    #[arg(value_name = "DIR_OR_WASM", required = true)]
    modules: Vec<PathBuf>,
    /// Directory for the artifacts; created if missing
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
}

/// Modules that were compiled.
#[derive(Debug, Serialize)]
pub(crate) struct CompileReport {
    artifacts: Vec<Artifact>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Artifact {
    module: PathBuf,
    /// The sha256 of the module.
    sha256: String,
    /// The path of the artifact. The host finds artifacts by their file names.
    artifact: PathBuf,
    bytes: u64,
    millis: u64,
    /// Peak memory of the compile process in bytes.
    peak_memory: Option<u64>,
}

/// Compiles the modules one after the other.
pub(crate) fn run(arguments: &Arguments) -> Result<CompileReport, Failure> {
    let modules = module_discovery::find(&arguments.modules).map_err(Failure::Usage)?;
    let options = interactive_compile::options(None)?;
    let runtime = runtime()?;
    create_directory(&arguments.into)?;
    // In that directory, because an image that is being built may have no /tmp.
    let staging = TemporaryDirectory::new_in(&arguments.into, ".staging-");
    let staging = staging.map_err(|error| unwritable(&arguments.into, error))?;
    let mut artifacts = Vec::new();
    for hook in modules {
        let started = Instant::now();
        let compilation = precompile(&hook.module, staging.path(), &options);
        let precompiled = runtime.block_on(interactive_compile::with_progress(
            &hook.module,
            compilation,
        ));
        let precompiled = precompiled.map_err(|error| match error {
            PrecompileError::Load(error) => interactive_compile::unusable(error),
            PrecompileError::Write { .. } => Failure::internal(error),
        })?;
        interactive_compile::warn_of_compiling(&options.limits);
        let peak_memory = match precompiled.module.code_origin() {
            CodeOrigin::Compiled { peak_memory, .. } => *peak_memory,
            CodeOrigin::Cached | CodeOrigin::Precompiled { .. } => None,
        };
        let name = precompiled.artifact.file_name().unwrap_or_default();
        let artifact = arguments.into.join(name);
        let moved = fs::rename(&precompiled.artifact, &artifact);
        moved.map_err(|error| unwritable(&artifact, error))?;
        artifacts.push(Artifact {
            module: hook.module,
            sha256: precompiled.module.digest().to_owned(),
            artifact,
            bytes: precompiled.size,
            millis: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            peak_memory,
        });
    }
    Ok(CompileReport { artifacts })
}

/// Creates a directory as is usual in an image.
fn create_directory(path: &Path) -> Result<(), Failure> {
    let mut builder = DirBuilder::new();
    let created = builder.mode(0o755).recursive(true).create(path);
    created.map_err(|error| unwritable(path, error))
}

fn unwritable(path: &Path, error: io::Error) -> Failure {
    Failure::Internal(anyhow::Error::new(error).context(path.display().to_string()))
}

impl Report for CompileReport {
    fn text(&self, _: Style) -> String {
        let lines = self.artifacts.iter().map(|artifact| {
            let peak = artifact.peak_memory;
            let peak = peak.map_or(String::new(), |peak| {
                format!(", {} MiB at most", peak >> 20)
            });
            format!(
                "{}: {} ({} bytes, {} ms{peak})\n",
                artifact.module.display(),
                artifact.artifact.display(),
                artifact.bytes,
                artifact.millis
            )
        });
        lines.collect()
    }
}
