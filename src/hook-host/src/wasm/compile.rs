//! From a module to an artifact: through the compile child, or in this process.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::artifact::hex;
use super::child::{self, Allowance, Report};
use super::engine::Machine;
use super::{COMPILE_ARG, Compiler};
use crate::Limits;

/// A report is one line.
const MAX_REPORT: u64 = 64 << 10;
/// Between closing its standard error and its end, a child does nothing.
const EXIT: Duration = Duration::from_secs(1);
const SIGXCPU: i32 = 24;
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

/// A module that was not compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The compiler refuses it.
    #[error("{0}")]
    Refused(String),
    /// It is too much for what a compile child may use.
    #[error(
        "compiling it takes more than {0}; compiled ahead with `virt-hook compile` it takes nothing"
    )]
    TooMuch(String),
    /// The child could not be run.
    #[error("{program} could not be run to compile it: {source}")]
    Child {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The child ended without a word.
    #[error("{program}, run to compile it, ended with {status} and said {said:?}")]
    Died {
        /// The program.
        program: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        said: String,
    },
}

/// What was compiled, and what that took.
pub(super) struct Compiled {
    /// The sha256 of the module: its file may have changed since it was looked at.
    pub(super) digest: String,
    /// Of the child, in bytes; not known of this process.
    pub(super) peak_memory: Option<u64>,
}

/// What is compiled: from which file, to which, and for which machines.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) module: &'a File,
    pub(super) artifact: &'a File,
    pub(super) machine: Machine,
}

/// Does a job within limits.
pub(super) async fn compile(
    compiler: &Compiler,
    job: Job<'_>,
    limits: &Limits,
) -> Result<Compiled, CompileError> {
    match compiler {
        Compiler::Child { program } => {
            let failed = |source| CompileError::Child {
                program: program.clone(),
                source,
            };
            let child = start(program, job, limits).map_err(failed)?;
            finish(program, child, limits).await
        }
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
    machine: Machine,
) -> Result<Compiled, CompileError> {
    let mut bytes = Vec::new();
    module
        .rewind()
        .and_then(|()| module.read_to_end(&mut bytes))
        .map_err(|error| CompileError::Refused(error.to_string()))?;
    let code = child::compile(&bytes, machine).map_err(CompileError::Refused)?;
    artifact
        .write_all(&code)
        .map_err(|error| CompileError::Refused(error.to_string()))?;
    Ok(Compiled {
        digest: hex(&Sha256::digest(&bytes)),
        peak_memory: None,
    })
}

/// A child that does not outlive us: killed and reaped when dropped.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn start(program: &Path, job: Job<'_>, limits: &Limits) -> io::Result<Reaped> {
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(limits.compile_threads)
        .max(1);
    let allowance = Allowance {
        memory: limits.compile_memory as u64,
        seconds: limits.compile_processor_time.as_secs().max(1) * threads as u64,
        module: limits.module as u64,
        machine: job.machine,
    };
    let mut module = job.module.try_clone()?;
    module.rewind()?;
    let child = Command::new(program)
        .arg(COMPILE_ARG)
        .args(allowance.encode())
        .env_clear()
        .env("RAYON_NUM_THREADS", threads.to_string())
        .current_dir("/")
        .stdin(module)
        .stdout(job.artifact.try_clone()?)
        .stderr(Stdio::piped())
        .spawn()?;
    Ok(Reaped(child))
}

async fn finish(
    program: &Path,
    mut child: Reaped,
    limits: &Limits,
) -> Result<Compiled, CompileError> {
    let deadline = limits.compile_deadline;
    let failed = |source| CompileError::Child {
        program: program.to_owned(),
        source,
    };
    let said = tokio::time::timeout(deadline, listen(&mut child.0)).await;
    let said = match said {
        Err(_) => return Err(CompileError::TooMuch(format!("{deadline:?}"))),
        Ok(said) => said.map_err(failed)?,
    };
    let status = exit(&mut child.0).await.map_err(failed)?;
    match serde_json::from_str(&said) {
        Ok(Report::Compiled {
            digest,
            peak_memory,
        }) if status.success() => Ok(Compiled {
            digest,
            peak_memory,
        }),
        Ok(Report::Refused(text)) => Err(CompileError::Refused(text)),
        _ => Err(died(program, status, &said, limits)),
    }
}

async fn listen(child: &mut Child) -> io::Result<String> {
    let Some(stderr) = child.stderr.take() else {
        return Ok(String::new());
    };
    let stderr = pipe::Receiver::from_owned_fd(OwnedFd::from(stderr))?;
    let mut said = Vec::new();
    stderr.take(MAX_REPORT).read_to_end(&mut said).await?;
    Ok(String::from_utf8_lossy(&said).into_owned())
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

fn died(program: &Path, status: ExitStatus, said: &str, limits: &Limits) -> CompileError {
    match status.signal() {
        Some(SIGXCPU) => CompileError::TooMuch(format!(
            "{:?} of each processor",
            limits.compile_processor_time
        )),
        Some(SIGKILL) => CompileError::TooMuch("the system or its processor time allows".into()),
        Some(SIGABRT) if said.contains("memory") => {
            CompileError::TooMuch(format!("{} MiB of memory", limits.compile_memory >> 20))
        }
        _ => CompileError::Died {
            program: program.to_owned(),
            status,
            said: said.chars().take(500).collect(),
        },
    }
}
