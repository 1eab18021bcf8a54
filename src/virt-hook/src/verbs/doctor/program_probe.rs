//! Runs programs to find out whether they are installed, and in which version.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::runtime::Runtime;

use crate::tokio_runtime::runtime;
use crate::verb_failure::Failure;

/// Deadline of a program: Python on a cold disk takes seconds.
const DEADLINE: Duration = Duration::from_secs(20);
/// Maximum number of bytes of a program's output that are read.
const MAX_OUTPUT: u64 = 64 << 10;

/// Runs programs with a deadline.
pub(super) struct ProgramProbe(Runtime);

impl ProgramProbe {
    pub(super) fn new() -> Result<Self, Failure> {
        runtime().map(Self)
    }

    /// The standard output of a program; `None` if the program does not end with exit code 0 in time.
    pub(super) fn output(&self, program: &str, arguments: &[&str]) -> Option<String> {
        self.0.block_on(async {
            let run = tokio::time::timeout(DEADLINE, output(program, arguments));
            run.await.ok().flatten()
        })
    }

    /// The first line of a program's standard output.
    pub(super) fn first_line(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let output = self.output(program, arguments)?;
        output.lines().next().map(|line| line.trim().to_owned())
    }
}

async fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let mut bytes = Vec::new();
    let stdout = child.stdout.take()?;
    let read = stdout.take(MAX_OUTPUT).read_to_end(&mut bytes).await;
    let status = child.wait().await.ok()?;
    (read.is_ok() && status.success()).then(|| String::from_utf8_lossy(&bytes).into_owned())
}
