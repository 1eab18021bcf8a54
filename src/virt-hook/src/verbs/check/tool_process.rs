//! Runs libvirt's tools: finds them, starts the process that confines them, and reads their output.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::confined_tool::{CLEANUP_DEADLINE, ConfinedTool, DEADLINE, NOT_STARTED, TIMED_OUT};

/// Deadline of the process that runs a tool, which keeps the tool's deadline itself.
const PROCESS_DEADLINE: Duration = DEADLINE.saturating_add(CLEANUP_DEADLINE.saturating_mul(2));
/// The interval at which the process is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The most bytes of output.
const MAX_OUTPUT: u64 = 16 << 20;

/// The output of a tool.
pub(super) struct ToolOutput {
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// The directories of a tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolDirectories<'a> {
    /// The directory with the tool's input, which is its current directory.
    pub(super) input: &'a Path,
    /// The only directory that the tool can write to: its home.
    pub(super) private: &'a Path,
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
    /// The tool could not be started, or was killed by a signal.
    #[error(
        "{0} did not start, or was killed: it may need more memory, time or disk than it is given"
    )]
    Killed(&'static str),
    /// A system call failed.
    #[error("{0}: {1}")]
    Io(&'static str, io::Error),
}

/// Runs a tool, confined, with only `PATH` of this process's environment; as the user and group `uid`, if there is one.
pub(super) fn run_tool(
    name: &'static str,
    directories: ToolDirectories<'_>,
    uid: Option<u32>,
    arguments: Vec<OsString>,
) -> Result<ToolOutput, ToolError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tool = ConfinedTool {
        program: find(name, std::env::split_paths(&path)).ok_or(ToolError::Missing(name))?,
        input_dir: directories.input.to_owned(),
        private_dir: directories.private.to_owned(),
        uid,
        arguments,
    };
    let own_program = std::env::current_exe().map_err(|error| ToolError::Io(name, error))?;
    let child = Command::new(own_program)
        .args(tool.encode())
        .env_clear()
        .env("PATH", path)
        .env("LC_ALL", "C")
        .env("HOME", directories.private)
        .env("TMPDIR", directories.private)
        .env("XDG_RUNTIME_DIR", directories.private)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let child = child.map_err(|error| ToolError::Io(name, error))?;
    wait(name, KillOnDrop(child))
}

/// The program's path. Relative directories are left out: they depend on where the user is, which may be a stranger's
/// checkout.
fn find(name: &str, directories: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        let metadata = path.metadata();
        metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let mut candidates = directories
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name));
    candidates.find(is_program)
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
    match status.code() {
        Some(code) if code == i32::from(TIMED_OUT) => return Err(ToolError::Deadline(name)),
        Some(code) if code == i32::from(NOT_STARTED) => return Err(ToolError::Killed(name)),
        Some(_) => {}
        None => return Err(ToolError::Killed(name)),
    }
    let text = |output: mpsc::Receiver<String>| {
        let left = deadline.saturating_duration_since(Instant::now());
        let text = output.recv_timeout(left);
        text.map_err(|_| ToolError::Deadline(name))
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_in_absolute_directories_are_found() {
        let temp_dir = tempfile::tempdir().unwrap();
        let directory = temp_dir.path().to_owned();
        let program = directory.join("virsh");
        let found = |directories: &[&Path]| {
            find(
                "virsh",
                directories.iter().map(|directory| directory.to_path_buf()),
            )
        };
        std::fs::create_dir(directory.join("is-a-directory")).unwrap();
        std::fs::create_dir(directory.join("is-a-directory/virsh")).unwrap();
        std::fs::write(&program, "").unwrap();
        assert_eq!(found(&[&directory]), None, "it is not executable");
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(
            found(&[&directory.join("is-a-directory"), &directory]),
            Some(program)
        );
        let here = std::env::current_dir().unwrap();
        let up = "../".repeat(here.components().count() - 1);
        let relative = PathBuf::from(up).join(directory.strip_prefix("/").unwrap());
        assert!(relative.join("virsh").exists());
        assert_eq!(found(&[&relative, Path::new("")]), None);
    }

    #[test]
    fn error_names_a_missing_tool() {
        let root = Path::new("/");
        let directories = ToolDirectories {
            input: root,
            private: root,
        };
        let error = run_tool("no-such-program", directories, None, Vec::new()).err();
        let text = error.map(|error| error.to_string());
        assert_eq!(text.as_deref(), Some("no-such-program is not installed"));
    }
}
