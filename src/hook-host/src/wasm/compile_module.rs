//! Compiles a module to an artifact, in the compile child or in this process.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Once;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::compile_child::{self, ChildLimits, ChildReport};
use super::engine_config::TargetMachine;
use super::function_code_cache::FunctionFiles;
use super::{COMPILE_ARG, Compiler};
use crate::Limits;

/// The most bytes that are read of a child's report, which is one line.
const MAX_REPORT: u64 = 64 << 10;
/// How long a child may take to exit after it closed its standard error.
const EXIT: Duration = Duration::from_secs(1);
const SIGXCPU: i32 = 24;
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;
const SIGXFSZ: i32 = 25;

/// Why a module was not compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The compiler rejects the module.
    #[error("{0}")]
    Refused(String),
    /// [`Compiler::None`], and no usable artifact.
    #[error(
        "it is not compiled ahead for this program and machine, and nothing is compiled here: \
         `virt-hook compile --into DIRECTORY` does it (the artifacts and their directory must be root's, and on the mount of this program)"
    )]
    NotCompiledAhead,
    /// The compile child reached one of its limits.
    #[error(
        "compiling it takes more than {0}; compiled ahead with `virt-hook compile` it takes nothing"
    )]
    LimitExceeded(String),
    /// The disk is full, or the directory of compiled modules cannot be written.
    #[error("its code could not be written: {0}")]
    NotWritten(String),
    /// The child could not be started or waited for.
    #[error("{program} could not be run to compile it: {source}")]
    Child {
        /// The program.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The child ended without a report.
    #[error("{program}, run to compile it, ended with {status} and wrote {stderr:?}")]
    ChildDied {
        /// The program.
        program: PathBuf,
        /// The exit status.
        status: ExitStatus,
        /// The text on its standard error.
        stderr: String,
    },
}

/// The result of a compilation.
pub(super) struct CompileOutcome {
    /// Peak memory of the child in bytes; unknown for this process.
    pub(super) peak_memory: Option<u64>,
    /// The number of functions whose code an earlier compilation has left.
    pub(super) reused_functions: usize,
}

/// Input, output and target of a compilation.
#[derive(Clone, Copy)]
pub(super) struct CompileJob<'a> {
    pub(super) module: &'a File,
    pub(super) artifact: &'a File,
    pub(super) machine: TargetMachine,
    /// What a compile child keeps the code of functions in.
    pub(super) functions: Option<&'a FunctionFiles>,
}

/// Compiles a module within `limits`.
pub(super) async fn compile(
    compiler: &Compiler,
    job: CompileJob<'_>,
    limits: &Limits,
) -> Result<CompileOutcome, CompileError> {
    match compiler {
        Compiler::Child { program } => {
            let failed = |source| CompileError::Child {
                program: program.clone(),
                source,
            };
            let child = start(program, job, limits).map_err(failed)?;
            finish(program, child, limits).await
        }
        Compiler::None => Err(CompileError::NotCompiledAhead),
        Compiler::InProcess => {
            let failed = |source| CompileError::Child {
                program: "this process".into(),
                source,
            };
            let mut module = job.module.try_clone().map_err(failed)?;
            let mut artifact = job.artifact.try_clone().map_err(failed)?;
            let machine = job.machine;
            let task = tokio::task::spawn_blocking(move || {
                in_process(&mut module, &mut artifact, machine)
            });
            task.await
                .map_err(|error| CompileError::Refused(error.to_string()))?
        }
    }
}

fn in_process(
    module: &mut File,
    artifact: &mut File,
    machine: TargetMachine,
) -> Result<CompileOutcome, CompileError> {
    let mut bytes = Vec::new();
    module
        .rewind()
        .and_then(|()| module.read_to_end(&mut bytes))
        .map_err(|error| CompileError::Refused(error.to_string()))?;
    let code = compile_child::compile(&bytes, machine).map_err(CompileError::Refused)?;
    artifact
        .write_all(&code)
        .map_err(|error| CompileError::NotWritten(error.to_string()))?;
    Ok(CompileOutcome {
        peak_memory: None,
        reused_functions: 0,
    })
}

/// Kills and reaps the child on drop, so that it does not outlive this process.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn start(program: &Path, job: CompileJob<'_>, limits: &Limits) -> io::Result<ChildGuard> {
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(limits.compile_threads)
        .max(1);
    let child_limits = ChildLimits {
        memory: limits.compile_memory as u64,
        seconds: limits.compile_processor_time.as_secs().max(1) * threads as u64,
        module: limits.module as u64,
        machine: job.machine,
    };
    let mut module = job.module.try_clone()?;
    module.rewind()?;
    let child = Command::new(program)
        .arg(COMPILE_ARG)
        .args(child_limits.encode())
        .args(job.functions.iter().flat_map(|files| files.encode()))
        .env_clear()
        .env("RAYON_NUM_THREADS", threads.to_string())
        .current_dir("/")
        .stdin(module)
        .stdout(job.artifact.try_clone()?)
        .stderr(Stdio::piped())
        .spawn()?;
    Ok(ChildGuard(child))
}

async fn finish(
    program: &Path,
    mut child: ChildGuard,
    limits: &Limits,
) -> Result<CompileOutcome, CompileError> {
    let deadline = limits.compile_deadline;
    let failed = |source| CompileError::Child {
        program: program.to_owned(),
        source,
    };
    let stderr = tokio::time::timeout(deadline, read_stderr(&mut child.0)).await;
    let stderr = match stderr {
        Err(_) => return Err(CompileError::LimitExceeded(format!("{deadline:?}"))),
        Ok(stderr) => stderr.map_err(failed)?,
    };
    let status = exit(&mut child.0).await.map_err(failed)?;
    match serde_json::from_str(&stderr) {
        Ok(ChildReport::Compiled {
            peak_memory,
            reused_functions,
            unconfined,
        }) if status.success() => {
            report_unconfined(&unconfined);
            Ok(CompileOutcome {
                peak_memory,
                reused_functions,
            })
        }
        Ok(ChildReport::Refused(text)) => Err(CompileError::Refused(text)),
        Ok(ChildReport::NotWritten(text)) => Err(CompileError::NotWritten(text)),
        _ => Err(death_error(program, status, &stderr, limits)),
    }
}

/// Logs once what the kernel lacks to confine compile children.
fn report_unconfined(missing: &[String]) {
    static REPORTED: Once = Once::new();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        REPORTED.call_once(|| {
            tracing::warn!(
                missing,
                "the kernel lacks what confines the compilation of modules; its limits remain"
            );
        });
    }
}

async fn read_stderr(child: &mut Child) -> io::Result<String> {
    let Some(stderr) = child.stderr.take() else {
        return Ok(String::new());
    };
    let stderr = pipe::Receiver::from_owned_fd(OwnedFd::from(stderr))?;
    let mut text = Vec::new();
    stderr.take(MAX_REPORT).read_to_end(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

async fn exit(child: &mut Child) -> io::Result<ExitStatus> {
    let end = tokio::time::Instant::now() + EXIT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if tokio::time::Instant::now() >= end {
            child.kill()?;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn death_error(program: &Path, status: ExitStatus, stderr: &str, limits: &Limits) -> CompileError {
    match status.signal() {
        Some(SIGXCPU) => CompileError::LimitExceeded(format!(
            "{:?} of each processor",
            limits.compile_processor_time
        )),
        Some(SIGKILL) => {
            CompileError::LimitExceeded("the system or its processor time allows".into())
        }
        Some(SIGXFSZ) => {
            CompileError::LimitExceeded(format!("{} MiB of code", limits.compile_memory >> 20))
        }
        Some(SIGABRT) if stderr.contains("memory") => {
            CompileError::LimitExceeded(format!("{} MiB of memory", limits.compile_memory >> 20))
        }
        // Without memory for their stacks, no threads are started either.
        None if stderr.contains("ThreadPoolBuildError") => CompileError::LimitExceeded(format!(
            "{} MiB of memory, or more threads than the system has left",
            limits.compile_memory >> 20
        )),
        _ => CompileError::ChildDied {
            program: program.to_owned(),
            status,
            stderr: stderr.chars().take(500).collect(),
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::error::LoadError;
    use super::*;

    #[test]
    fn a_full_disk_is_not_the_modules_fault() {
        let mut module = tempfile::tempfile().unwrap();
        module
            .write_all(&wat::parse_str("(component)").unwrap())
            .unwrap();
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        let compiled = in_process(&mut module, &mut full, TargetMachine::This);
        let Err(source) = compiled else {
            panic!("written");
        };
        assert!(matches!(source, CompileError::NotWritten(_)), "{source}");
        let error = LoadError::Compile {
            path: "x.wasm".into(),
            size: 7,
            source,
        };
        assert!(!error.is_fault_of_module());
    }

    #[test]
    fn a_child_without_memory_for_threads_reached_its_limit() {
        let panicked = ExitStatus::from_raw(101 << 8);
        let stderr = "The global thread pool has not been initialized.: ThreadPoolBuildError { kind: IOError(Os { code: 11 }) }";
        let limits = Limits {
            compile_memory: 40 << 20,
            ..Limits::default()
        };
        let error = death_error(Path::new("/bin/hook"), panicked, stderr, &limits).to_string();
        assert!(error.contains("more than 40 MiB of memory, or"), "{error}");
        let other = death_error(Path::new("/bin/hook"), panicked, "index", &limits).to_string();
        assert!(
            other.contains("/bin/hook") && other.contains("\"index\""),
            "{other}"
        );
    }
}
