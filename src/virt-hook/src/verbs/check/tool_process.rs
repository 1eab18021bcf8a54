//! Runs libvirt's tools with a deadline.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Deadline of a tool. At the first call libvirt queries QEMU's capabilities, which takes seconds.
const DEADLINE: Duration = Duration::from_secs(60);
/// The interval at which the child is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The most bytes of output.
const MAX_OUTPUT: u64 = 16 << 20;

/// The output of a tool.
pub(super) struct ToolOutput {
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// An error of running a tool.
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
        .stderr(Stdio::piped())
        // So that the tool's own child processes are killed with it.
        .process_group(0);
    prepare(&mut command);
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ToolError::Missing(program),
        _ => ToolError::Io(program, error),
    })?;
    wait(program, KillOnDrop(child))
}

/// Kills the child's process group and reaps the child on drop.
struct KillOnDrop(Child);

impl KillOnDrop {
    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.0.id()).ok().and_then(Pid::from_raw)
    }

    /// Whether the child has ended. It is not reaped: no other process group gets its number.
    fn has_ended(&self) -> io::Result<bool> {
        let pid = self.pid().ok_or(io::ErrorKind::NotFound)?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        Ok(waitid(WaitId::Pid(pid), options)?.is_some())
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(pid) = self.pid() {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

fn wait(program: &'static str, mut child: KillOnDrop) -> Result<ToolOutput, ToolError> {
    let stdout = collect(child.0.stdout.take());
    let stderr = collect(child.0.stderr.take());
    let deadline = Instant::now() + DEADLINE;
    loop {
        match child.has_ended() {
            Ok(true) => break,
            Ok(false) if Instant::now() >= deadline => return Err(ToolError::Deadline(program)),
            Ok(false) => thread::sleep(POLL_INTERVAL),
            Err(error) => return Err(ToolError::Io(program, error)),
        }
    }
    // A process that the tool left behind may hold its output open, so the process group is killed first.
    drop(child);
    let text = |output: mpsc::Receiver<String>| {
        let left = deadline.saturating_duration_since(Instant::now());
        let text = output.recv_timeout(left);
        text.map_err(|_| ToolError::Deadline(program))
    };
    Ok(ToolOutput {
        stdout: text(stdout)?,
        stderr: text(stderr)?,
    })
}

fn collect(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut output = Vec::new();
        if let Some(stream) = stream {
            // After a read error, the output so far counts.
            let _ = stream.take(MAX_OUTPUT).read_to_end(&mut output);
        }
        // Fails only if the receiver has given up.
        let _ = sender.send(String::from_utf8_lossy(&output).into_owned());
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_the_tool_leaves_behind_does_not_keep_its_output_open() {
        let begin = Instant::now();
        let output = run_tool("sh", Path::new("/"), |command| {
            command.args(["-c", "sleep 90 & echo done"]);
        });
        assert_eq!(
            output.map(|output| output.stdout).ok().as_deref(),
            Some("done\n")
        );
        assert!(
            begin.elapsed() < Duration::from_secs(90),
            "before the sleep"
        );
    }

    #[test]
    fn error_names_a_missing_tool() {
        let error = run_tool("no-such-program", Path::new("/"), |_| {}).err();
        let text = error.map(|error| error.to_string());
        assert_eq!(text.as_deref(), Some("no-such-program is not installed"));
    }
}
