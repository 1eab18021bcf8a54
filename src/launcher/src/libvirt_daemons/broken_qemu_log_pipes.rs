//! Finds QEMU's log pipes that have lost their reader, reopens them, and copies their data to files.
//!
//! QEMU writes the serial console's log and its own messages to pipes that virtlogd reads. When virtlogd dies, the
//! pipes have no reader: QEMU continues and its output is lost, also when virtlogd runs again, since the new virtlogd
//! does not know these pipes. QEMU still has the writing ends open. Opening one of these for reading through
//! `/proc/PID/fd` gives the same pipe a reader again. The launcher then writes the file itself, until this QEMU ends.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::rotating_file::RotatingFileWriter;

/// Maximum number of bytes that are read at once: the capacity of a pipe.
const CHUNK_BYTES: usize = 64 * 1024;
/// The name of standard error in `/proc/PID/fd`.
const STDERR_DESCRIPTOR: &str = "2";

/// A pipe of QEMU that has no reader.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BrokenPipe {
    /// The path of one of QEMU's descriptors for the pipe.
    descriptor: PathBuf,
    /// Whether the pipe is QEMU's standard error.
    pub(super) stderr: bool,
}

/// The pipes without a reader that a process has open for writing.
pub(super) fn broken_pipes(process: &Path) -> io::Result<Vec<BrokenPipe>> {
    let mut pipes: BTreeMap<PathBuf, BrokenPipe> = BTreeMap::new();
    for entry in fs::read_dir(process.join("fd"))? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        let Ok(target) = fs::read_link(&path) else {
            // The descriptor was closed meanwhile.
            continue;
        };
        if !target.to_string_lossy().starts_with("pipe:") || !is_write_only(process, &name)? {
            continue;
        }
        let stderr = name == STDERR_DESCRIPTOR;
        if let Some(known) = pipes.get_mut(&target) {
            known.stderr |= stderr;
        } else if has_no_reader(&path)? {
            let descriptor = path;
            pipes.insert(target, BrokenPipe { descriptor, stderr });
        }
    }
    Ok(pipes.into_values().collect())
}

/// Whether a descriptor is open for writing only, by its flags in `fdinfo`, which are octal.
fn is_write_only(process: &Path, descriptor: &std::ffi::OsStr) -> io::Result<bool> {
    let text = fs::read_to_string(process.join("fdinfo").join(descriptor))?;
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    Ok(flags
        .is_some_and(|flags| OFlags::from_bits_retain(flags) & OFlags::ACCMODE == OFlags::WRONLY))
}

fn has_no_reader(descriptor: &Path) -> io::Result<bool> {
    let mut options = OpenOptions::new();
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = options
        .write(true)
        .custom_flags(nonblocking)
        .open(descriptor)?;
    let mut fds = [PollFd::new(&file, PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec::default()))?;
    Ok(fds[0].revents().contains(PollFlags::ERR))
}

impl BrokenPipe {
    /// Gives the pipe a reader.
    pub(super) fn reopen(&self) -> io::Result<pipe::Receiver> {
        let mut options = OpenOptions::new();
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let file: File = options
            .read(true)
            .custom_flags(nonblocking)
            .open(&self.descriptor)?;
        pipe::Receiver::from_file(file)
    }
}

/// Copies data from a pipe to a file, until the last writer has closed the pipe. Data that cannot be written are
/// dropped: a full pipe would stop the guest.
pub(super) async fn copy_to_file(mut pipe: pipe::Receiver, mut file: RotatingFileWriter) {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut is_failing = false;
    loop {
        let bytes = match pipe.read(&mut chunk).await {
            Ok(0) => return,
            Ok(count) => chunk.get(..count).unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "a log of QEMU's cannot be read on");
                return;
            }
        };
        // This writes at most one chunk to a local file, which does not block for long.
        match file.write(bytes) {
            Ok(()) => is_failing = false,
            Err(_) if is_failing => {}
            Err(error) => {
                is_failing = true;
                tracing::warn!(path = %file.path().display(), %error, "a log of QEMU's cannot be written");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use super::*;

    struct KilledOnDrop(Child);

    impl Drop for KilledOnDrop {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[tokio::test]
    async fn broken_log_pipe_is_found_and_reopened() {
        let (output, output_end) = io::pipe().unwrap();
        let (errors, errors_end) = io::pipe().unwrap();
        let child = Command::new("sh")
            .args(["-c", "trap '' PIPE; while sleep 0.05; do echo line; done"])
            .stdin(Stdio::null())
            .stdout(Stdio::from(output_end))
            .stderr(Stdio::from(errors_end))
            .spawn()
            .unwrap();
        let child = KilledOnDrop(child);
        let process = PathBuf::from(format!("/proc/{}", child.0.id()));
        // Pipes that the process inherited from the test runner are ignored.
        let broken = |process: &Path| {
            let pipes = broken_pipes(process)?.into_iter();
            let is_of_test = |pipe: &BrokenPipe| pipe.descriptor.ends_with("1") || pipe.stderr;
            io::Result::Ok(pipes.filter(is_of_test).collect::<Vec<_>>())
        };
        assert_eq!(broken(&process).unwrap(), []);
        drop(output);
        let pipes =
            eventually(|| Some(broken(&process).unwrap()).filter(|pipes| !pipes.is_empty())).await;
        assert_eq!(pipes.len(), 1, "{pipes:?}");
        assert!(!pipes[0].stderr);

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        fs::write(&path, "before\n").unwrap();
        let pipe = pipes[0].reopen().unwrap();
        assert_eq!(broken(&process).unwrap(), [], "it has a reader now");
        let copying = tokio::spawn(copy_to_file(pipe, RotatingFileWriter::new(&path)));
        let text = eventually(|| {
            let text = fs::read_to_string(&path).unwrap();
            text.contains("line\nline\n").then_some(text)
        })
        .await;
        assert!(text.starts_with("before\n"), "{text}");
        drop(errors);
        let pipes =
            eventually(|| Some(broken(&process).unwrap()).filter(|pipes| !pipes.is_empty())).await;
        assert!(pipes.iter().all(|pipe| pipe.stderr), "{pipes:?}");
        drop(child);
        // The copy ends with the last writer, which may be the `sleep`.
        let ended = tokio::time::timeout(Duration::from_secs(10), copying);
        ended.await.unwrap().unwrap();
    }

    async fn eventually<T>(mut get: impl FnMut() -> Option<T>) -> T {
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(value) = get() {
                return value;
            }
            assert!(std::time::Instant::now() < deadline, "not within 20 s");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
