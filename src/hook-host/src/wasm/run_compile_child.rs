//! Starts a compile child, waits for it, and converts its end to a result.

use std::io::{self, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Once;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::COMPILE_ARG;
use super::compile_child::{ChildLimits, ChildReport};
use super::compile_error::{CompileError, CompileLimit};
use super::compile_job::{CompileJob, CompileOutcome};
use crate::Limits;

/// Maximum size of a child's report, which is one line, in bytes.
const MAX_REPORT_BYTES: u64 = 64 << 10;
/// Timeout for the exit of a child after it closed its standard error.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
const SIGXCPU: i32 = 24;
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;
const SIGXFSZ: i32 = 25;

/// A child that is killed and reaped on drop, so that it does not outlive the compilation.
pub(super) struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

pub(super) fn start_child(
    program: &Path,
    job: CompileJob<'_>,
    limits: &Limits,
) -> io::Result<ChildGuard> {
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(limits.compile_threads)
        .max(1);
    let child_limits = ChildLimits {
        memory: limits.compile_memory as u64,
        cpu_seconds: limits.compile_cpu_time.as_secs().max(1) * threads as u64,
        module: limits.module as u64,
        machine: job.machine,
        may_be_unconfined: limits.compile_unconfined,
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

pub(super) async fn wait_for_child(
    program: &Path,
    mut child: ChildGuard,
    limits: &Limits,
) -> Result<CompileOutcome, CompileError> {
    let deadline = limits.compile_deadline;
    let child_error = |source| CompileError::Child {
        program: program.to_owned(),
        source,
    };
    let stderr = tokio::time::timeout(deadline, read_stderr(&mut child.0)).await;
    let stderr = match stderr {
        Err(_) => {
            return Err(CompileError::LimitExceeded(CompileLimit::Time(format!(
                "{deadline:?}"
            ))));
        }
        Ok(stderr) => stderr.map_err(child_error)?,
    };
    let status = wait_for_exit(&mut child.0).await.map_err(child_error)?;
    match serde_json::from_str(&stderr) {
        Ok(ChildReport::Compiled {
            peak_memory,
            reused_functions,
            missing_confinement,
        }) if status.success() => {
            log_missing_confinement(&missing_confinement);
            Ok(CompileOutcome {
                peak_memory,
                reused_functions,
            })
        }
        Ok(ChildReport::NotConfined(reason)) => Err(CompileError::NotConfined(reason)),
        Ok(ChildReport::Refused(text)) => Err(CompileError::Refused(text)),
        Ok(ChildReport::NotWritten(text)) => Err(CompileError::NotWritten(text)),
        _ => Err(death_error(program, status, &stderr, limits)),
    }
}

/// Logs once per process what is missing of the confinement.
fn log_missing_confinement(missing: &[String]) {
    static LOGGED: Once = Once::new();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        LOGGED.call_once(|| {
            tracing::warn!(
                missing,
                "the kernel lacks a part of what confines the compilation of modules"
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
    stderr.take(MAX_REPORT_BYTES).read_to_end(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

async fn wait_for_exit(child: &mut Child) -> io::Result<ExitStatus> {
    let end = tokio::time::Instant::now() + EXIT_TIMEOUT;
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

/// The error for a child that ended without a usable report.
fn death_error(program: &Path, status: ExitStatus, stderr: &str, limits: &Limits) -> CompileError {
    let memory = limits.compile_memory >> 20;
    let exceeded = match status.signal() {
        Some(SIGXCPU) => {
            CompileLimit::Time(format!("{:?} of each processor", limits.compile_cpu_time))
        }
        Some(SIGKILL) => CompileLimit::Time("the system or its processor time allows".into()),
        Some(SIGXFSZ) => CompileLimit::Memory(format!("{memory} MiB of code")),
        Some(SIGABRT) if stderr.contains("memory") => {
            CompileLimit::Memory(format!("{memory} MiB of memory"))
        }
        // The thread pool also fails if there is no memory for the stacks of threads.
        None if stderr.contains("ThreadPoolBuildError") => CompileLimit::Memory(format!(
            "{memory} MiB of memory, or more threads than the system has left"
        )),
        _ => {
            return CompileError::ChildDied {
                program: program.to_owned(),
                status,
                stderr: stderr.chars().take(500).collect(),
            };
        }
    };
    CompileError::LimitExceeded(exceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_without_memory_for_threads_exceeded_its_limit() {
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
