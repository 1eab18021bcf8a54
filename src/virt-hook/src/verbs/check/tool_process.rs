//! Runs libvirt's tools: finds them, makes their directories, starts the process that confines them, and reads their output.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};

use super::confined_tool::{
    CLEANUP_DEADLINE, ConfinedTool, DEADLINE, KILLED, NOT_CONFINED, NOT_STARTED, TIMED_OUT,
};
use crate::program_in_path;
use crate::temporary_directory::TemporaryDirectory;

/// Deadline of the process that runs a tool, which keeps the tool's deadline itself.
const PROCESS_DEADLINE: Duration = DEADLINE.saturating_add(CLEANUP_DEADLINE.saturating_mul(2));
/// The interval at which the process is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The most bytes of output.
const MAX_OUTPUT: u64 = 16 << 20;
/// The most characters of a reason on a tool's standard error.
const MAX_REASON: usize = 500;
/// The exit code of the dynamic loader, and of a shell that does not find a program.
const NOT_LOADED: u8 = 127;
const NOBODY_UID: u32 = 65534;

/// The output of a tool.
pub(super) struct ToolOutput {
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl ToolOutput {
    /// The last line of standard error.
    fn reason(&self) -> String {
        let mut lines = self.stderr.lines().rev();
        let reason = lines.find(|line| !line.trim().is_empty());
        let reason = reason.unwrap_or("it does not say why").trim();
        reason.chars().take(MAX_REASON).collect()
    }
}

/// The directories of the tools of one check, and the user that the tools run as. The directories are removed on drop.
pub(super) struct ToolSandbox {
    /// The directory with the tools' input, which is their current directory. They cannot change it.
    input_dir: TemporaryDirectory,
    /// The only directory that the tools can write to: their home, in `input_dir`.
    private_dir: PathBuf,
    /// The user and group that the tools run as, if that is another.
    uid: Option<u32>,
}

impl ToolSandbox {
    /// Makes the directories. Tools of root run as the user nobody, unless root may not change its user.
    pub(super) fn new() -> anyhow::Result<Self> {
        let input_dir = TemporaryDirectory::new().context("making a temporary directory")?;
        let private_dir = input_dir.path().join("private");
        let made = fs::create_dir(&private_dir).and_then(|()| {
            fs::set_permissions(input_dir.path(), Permissions::from_mode(0o711))?;
            fs::set_permissions(&private_dir, Permissions::from_mode(0o700))
        });
        made.with_context(|| private_dir.display().to_string())?;
        // If root may not chown a directory, it may not change its uid either.
        let as_nobody = rustix::process::geteuid().is_root()
            && chown(&private_dir, Some(NOBODY_UID), Some(NOBODY_UID)).is_ok();
        Ok(Self {
            input_dir,
            private_dir,
            uid: as_nobody.then_some(NOBODY_UID),
        })
    }

    pub(super) fn private_dir(&self) -> &Path {
        &self.private_dir
    }

    /// Writes a file that the tools can read. Returns its path.
    pub(super) fn write_input(&self, name: &str, content: &str) -> anyhow::Result<PathBuf> {
        let path = self.input_dir.path().join(name);
        fs::write(&path, content)
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o644)))
            .with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Runs a tool, confined, with only `PATH` of this process's environment.
    pub(super) fn run(
        &self,
        name: &'static str,
        arguments: Vec<OsString>,
    ) -> Result<ToolOutput, ToolError> {
        let tool = ConfinedTool {
            program: program_in_path::find(name).ok_or(ToolError::Missing(name))?,
            input_dir: self.input_dir.path().to_owned(),
            private_dir: self.private_dir.clone(),
            uid: self.uid,
            arguments,
        };
        let own_program = std::env::current_exe().map_err(|error| ToolError::Io(name, error))?;
        let child = Command::new(own_program)
            .args(tool.encode())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LC_ALL", "C")
            .env("HOME", &self.private_dir)
            .env("TMPDIR", &self.private_dir)
            .env("XDG_RUNTIME_DIR", &self.private_dir)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let child = child.map_err(|error| ToolError::Io(name, error))?;
        wait(name, KillOnDrop(child))
    }
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
    /// The tool is not started without its confinement, which failed for this reason.
    #[error("{0} is not run, because it cannot be confined: {1}")]
    NotConfined(&'static str, String),
    /// The tool, or a program that it needs, does not start, for this reason.
    #[error("{0} does not start: {1}")]
    NotStarted(&'static str, String),
    /// The tool was killed by a signal.
    #[error("{0} was killed: it may need more memory, time or disk than it is given")]
    Killed(&'static str),
    /// A system call failed.
    #[error("{0}: {1}")]
    Io(&'static str, io::Error),
}

/// Kills the child's process group, if it still runs, and reaps the child on drop.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None))
            && let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

fn wait(name: &'static str, mut child: KillOnDrop) -> Result<ToolOutput, ToolError> {
    let stdout = collect(child.0.stdout.take());
    let stderr = collect(child.0.stderr.take());
    let deadline = Instant::now() + PROCESS_DEADLINE;
    let status = loop {
        match child.0.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() >= deadline => return Err(ToolError::Deadline(name)),
            Ok(None) => thread::sleep(POLL_INTERVAL),
            Err(error) => return Err(ToolError::Io(name, error)),
        }
    };
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    match code {
        Some(TIMED_OUT) => return Err(ToolError::Deadline(name)),
        Some(KILLED) | None => return Err(ToolError::Killed(name)),
        Some(_) => {}
    }
    let text = |output: mpsc::Receiver<String>| {
        let left = deadline.saturating_duration_since(Instant::now());
        let text = output.recv_timeout(left);
        text.map_err(|_| ToolError::Deadline(name))
    };
    let output = ToolOutput {
        stdout: text(stdout)?,
        stderr: text(stderr)?,
    };
    match code {
        Some(NOT_CONFINED) => Err(ToolError::NotConfined(name, output.reason())),
        Some(NOT_STARTED | NOT_LOADED) => Err(ToolError::NotStarted(name, output.reason())),
        _ => Ok(output),
    }
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
    fn error_names_a_missing_tool() {
        let sandbox = ToolSandbox::new().unwrap();
        let error = sandbox.run("no-such-program", Vec::new()).err();
        let text = error.map(|error| error.to_string());
        assert_eq!(text.as_deref(), Some("no-such-program is not installed"));
    }
}
