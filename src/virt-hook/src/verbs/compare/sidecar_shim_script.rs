//! A script as KubeVirt's sidecar-shim runs it: `SCRIPT --vmi JSON --domain XML`, the domain on standard output.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, anyhow};
use domain_xml::{Document, Limits};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::runtime::Runtime;

use super::vmi_outcome::VmiOutcome;
use crate::inputs::VmiInput;
use crate::tokio_runtime::runtime;
use crate::verb_failure::Failure;

/// Deadline of the script: as long as a launcher waits for a sidecar.
const DEADLINE: Duration = Duration::from_secs(60);
/// Maximum number of bytes of standard error that are read.
const MAX_STDERR: usize = 64 << 10;
/// Exit codes of shells and command line parsers: for wrong usage, for a program that cannot be executed, and for one
/// that does not exist.
const NOT_RUN_EXIT_CODES: [i32; 3] = [2, 126, 127];
/// The error number for a file that is not a program and does not begin with `#!`.
const ENOEXEC: i32 = 8;

/// A script at OnDefineDomain.
pub(super) struct SidecarShimScript {
    path: PathBuf,
    runtime: Runtime,
}

impl SidecarShimScript {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let path_text = || path.display().to_string();
        let resolved = path
            .canonicalize()
            .with_context(path_text)
            .map_err(Failure::Usage)?;
        let metadata = resolved
            .metadata()
            .with_context(path_text)
            .map_err(Failure::Usage)?;
        if metadata.permissions().mode() & 0o111 == 0 {
            return Err(Failure::usage(anyhow!(
                "{}: it is not a module, not a socket and not executable: `chmod +x` makes a script \
                 executable",
                path.display()
            )));
        }
        Ok(Self {
            path: resolved,
            runtime: runtime()?,
        })
    }

    /// Runs the script with this process's environment.
    pub(super) fn run(&self, input: &VmiInput) -> Result<VmiOutcome, Failure> {
        let run = self
            .runtime
            .block_on(async { tokio::time::timeout(DEADLINE, self.output(input)).await });
        let name = self.path.display();
        match run {
            Err(_) => Ok(VmiOutcome::Refused(format!(
                "{name} did not end within {DEADLINE:?}"
            ))),
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(error)) => Err(self.start_failure(error)),
        }
    }

    /// The failure for a script that does not start.
    fn start_failure(&self, error: std::io::Error) -> Failure {
        let name = self.path.display();
        let reason = match (error.kind(), error.raw_os_error()) {
            (ErrorKind::NotFound, _) => "the interpreter that its first line names is not there",
            (ErrorKind::PermissionDenied, _) => {
                "it, or the interpreter that its first line names, may not be executed"
            }
            (_, Some(ENOEXEC)) => "it is not a program, and has no first line such as #!/bin/sh",
            _ => {
                return Failure::internal(
                    anyhow::Error::new(error).context(format!("running {name}")),
                );
            }
        };
        Failure::usage(anyhow!("{name} does not start: {reason}"))
    }

    async fn output(&self, input: &VmiInput) -> std::io::Result<VmiOutcome> {
        let mut child = Command::new(&self.path)
            .args(["--vmi", &input.vmi, "--domain", &input.xml])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let limit = Limits::default().bytes;
        let stdout = read(child.stdout.take(), limit);
        let stderr = read(child.stderr.take(), MAX_STDERR);
        let (stdout, stderr, status) = tokio::join!(stdout, stderr, child.wait());
        let (stdout, stderr, status) = (stdout?, stderr?, status?);
        if !status.success() {
            let last = stderr.lines().next_back().unwrap_or_default();
            let reason = format!("{status}: {last}");
            let has_not_run = status
                .code()
                .is_some_and(|code| NOT_RUN_EXIT_CODES.contains(&code));
            return Ok(match has_not_run && stdout.is_empty() {
                true => VmiOutcome::NotRun(reason),
                false => VmiOutcome::Refused(reason),
            });
        }
        Ok(match Document::parse(&stdout) {
            Ok(_) => VmiOutcome::Completed {
                xml: stdout,
                documents: super::vmi_outcome::documents(input),
                ignored_failures: Vec::new(),
            },
            Err(error) => VmiOutcome::Refused(format!("its output is not a domain: {error}")),
        })
    }
}

async fn read(stream: Option<impl AsyncRead + Unpin>, limit: usize) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream
            .take(limit as u64 + 1)
            .read_to_end(&mut bytes)
            .await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
