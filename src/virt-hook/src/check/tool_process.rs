//! Runs libvirt's tools with a deadline.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Libvirt queries QEMU's capabilities at the first call, which takes seconds.
const DEADLINE: Duration = Duration::from_secs(60);
/// The interval at which the child is polled.
const PAUSE: Duration = Duration::from_millis(5);
/// The most bytes of output.
const MAX_OUTPUT: u64 = 16 << 20;

/// The output of a tool.
pub(super) struct ToolOutput {
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Why a tool gave no output.
#[derive(Debug, thiserror::Error)]
pub(super) enum ToolError {
    /// The tool is not installed.
    #[error("{0} is not installed")]
    Missing(&'static str),
    /// The tool took too long and was killed.
    #[error("{0} did not answer within {DEADLINE:?}")]
    Deadline(&'static str),
    /// A system call failed.
    #[error("{0}: {1}")]
    Io(&'static str, io::Error),
}

/// Runs a tool with only `PATH` of this process's environment; `home` is its home directory.
pub(super) fn run_tool(
    program: &'static str,
    home: &Path,
    prepare: impl FnOnce(&mut Command),
) -> Result<ToolOutput, ToolError> {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("LC_ALL", "C")
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    prepare(&mut command);
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ToolError::Missing(program),
        _ => ToolError::Io(program, error),
    })?;
    wait(program, KillOnDrop(child))
}

/// Kills and reaps the child on drop.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn wait(program: &'static str, mut child: KillOnDrop) -> Result<ToolOutput, ToolError> {
    let stdout = collect(child.0.stdout.take());
    let stderr = collect(child.0.stderr.take());
    let end = Instant::now() + DEADLINE;
    loop {
        match child.0.try_wait() {
            Ok(Some(_)) => break,
            Ok(None) if Instant::now() >= end => return Err(ToolError::Deadline(program)),
            Ok(None) => thread::sleep(PAUSE),
            Err(error) => return Err(ToolError::Io(program, error)),
        }
    }
    let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
    Ok(ToolOutput {
        stdout: text(stdout),
        stderr: text(stderr),
    })
}

fn collect(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut output = Vec::new();
        if let Some(stream) = stream {
            // After a read error, the output so far counts.
            let _ = stream.take(MAX_OUTPUT).read_to_end(&mut output);
        }
        String::from_utf8_lossy(&output).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named() {
        let error = run_tool("no-such-program", Path::new("/"), |_| {}).err();
        let text = error.map(|error| error.to_string());
        assert_eq!(text.as_deref(), Some("no-such-program is not installed"));
    }
}
