//! Continues the logs of a running QEMU when virtlogd ends.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::log_lines;
use super::log_lines::LineSplitter;
use crate::paths::Paths;

/// The pauses before the checks for pipes without a reader. A QEMU that was starting when virtlogd ended has its pipes
/// only a little later.
const CHECK_DELAYS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// The files of one domain's QEMU.
#[derive(Debug, Clone)]
pub(super) struct QemuLogs {
    pid_file: PathBuf,
    /// The log of the guest's serial console.
    serial: PathBuf,
    /// The log of QEMU's own messages.
    messages: PathBuf,
}

impl QemuLogs {
    pub(super) fn new(paths: &Paths, domain: &str) -> QemuLogs {
        QemuLogs {
            pid_file: paths.qemu_pid_file(domain),
            serial: paths.vmi_private().join("virt-serial0-log"),
            messages: paths.qemu_log(domain),
        }
    }
}

/// A log could not be continued.
#[derive(Debug, thiserror::Error)]
#[error(
    "virtlogd ended, and the serial console's log of the running VM ends with it: {reason}; the VM \
     and its console are not affected, a restart of the VM brings the log back"
)]
struct LostLog {
    reason: String,
}

/// Continues the logs after each end of virtlogd, which is a change of `ends`. A log that cannot be continued is
/// reported through `lost`. Runs until the daemons end.
pub(super) async fn take_over(
    logs: QemuLogs,
    mut ends: watch::Receiver<u64>,
    lost: watch::Sender<Option<String>>,
) {
    let mut copies = JoinSet::new();
    while ends.changed().await.is_ok() {
        for pause in CHECK_DELAYS {
            sleep(pause).await;
            while copies.try_join_next().is_some() {}
            if let Err(error) = continue_logs(&logs, &mut copies) {
                let message = error.to_string();
                tracing::warn!("{message}");
                let _ = lost.send(Some(message));
                break;
            }
        }
    }
}

fn continue_logs(logs: &QemuLogs, copies: &mut JoinSet<()>) -> Result<(), LostLog> {
    let Some(process) = qemu_process_directory(logs) else {
        return Ok(());
    };
    let pipes = match broken_pipes(&process) {
        Ok(pipes) => pipes,
        // QEMU has ended meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(lost_log(&process, &error)),
    };
    let (messages, serial): (Vec<_>, Vec<_>) = pipes.into_iter().partition(|pipe| pipe.stderr);
    for pipe in messages {
        start_copy(&pipe, &logs.messages, copies).map_err(|error| lost_log(&process, &error))?;
    }
    match serial.as_slice() {
        [] => Ok(()),
        [pipe] => {
            start_copy(pipe, &logs.serial, copies).map_err(|error| lost_log(&process, &error))?;
            tracing::info!(path = %logs.serial.display(), "the launcher continues the serial console's log");
            Ok(())
        }
        several => Err(LostLog {
            reason: format!(
                "QEMU has {} logs whose files cannot be distinguished",
                several.len()
            ),
        }),
    }
}

fn start_copy(pipe: &BrokenPipe, file: &Path, copies: &mut JoinSet<()>) -> io::Result<()> {
    copies.spawn(copy_to_file(pipe.reopen()?, RotatingFileWriter::new(file)));
    Ok(())
}

/// QEMU's directory in `/proc`.
fn qemu_process_directory(logs: &QemuLogs) -> Option<PathBuf> {
    let text = fs::read_to_string(&logs.pid_file).ok()?;
    let pid: u32 = text.trim().parse().ok()?;
    Some(PathBuf::from(format!("/proc/{pid}")))
}

fn lost_log(process: &Path, error: &io::Error) -> LostLog {
    LostLog {
        reason: format!("{}: {error}", process.join("fd").display()),
    }
}

/// The pause when there are no new lines. They need not be logged at once, and an idle launcher should stay idle.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of bytes that are read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// Follows the file for ever. It need not exist yet, and virtlogd may replace it.
pub(super) async fn follow(path: PathBuf) {
    let mut tail = Tail::default();
    loop {
        // This reads at most CHUNK_BYTES of a local file, which does not block for long.
        if !tail.read_more(&path, &mut log_lines::log_qemu) {
            sleep(POLL_INTERVAL).await;
        }
        tokio::task::yield_now().await;
    }
}

/// The file that is followed and the position in it.
#[derive(Debug, Default)]
struct Tail {
    /// The open file and its inode.
    file: Option<(u64, File)>,
    position: u64,
    lines: LineSplitter,
}

impl Tail {
    /// Reads more; false when there is nothing more to read now.
    fn read_more(&mut self, path: &Path, line: &mut impl FnMut(&str)) -> bool {
        let count = self.read_chunk(line);
        if count > 0 {
            return true;
        }
        self.reopen_if_replaced(path, line)
    }

    fn read_chunk(&mut self, line: &mut impl FnMut(&str)) -> usize {
        let Some((_, file)) = &mut self.file else {
            return 0;
        };
        let mut chunk = Vec::new();
        // An error is treated like the end of the file: the path is checked again.
        let _ = file.take(CHUNK_BYTES as u64).read_to_end(&mut chunk);
        self.position += chunk.len() as u64;
        self.lines.feed(&chunk, line);
        chunk.len()
    }

    /// Opens the file at the path if it is a new file, or shorter than the position.
    fn reopen_if_replaced(&mut self, path: &Path, line: &mut impl FnMut(&str)) -> bool {
        let Ok(metadata) = fs::metadata(path) else {
            return false;
        };
        let is_same_file = self
            .file
            .as_ref()
            .is_some_and(|(inode, _)| *inode == metadata.ino());
        if is_same_file && metadata.len() >= self.position {
            return false;
        }
        let Ok(file) = File::open(path) else {
            return false;
        };
        self.lines.finish(line);
        self.file = Some((metadata.ino(), file));
        self.position = 0;
        true
    }
}

/// Maximum size of a file in bytes, as in virtlogd. A file NAME that would grow larger is renamed to NAME.0, NAME.0 to
/// NAME.1, and so on.
const MAX_BYTES: u64 = 2 << 20;
/// The number of older files that are kept, as in virtlogd.
const BACKUPS: u32 = 3;
const FILE_MODE: u32 = 0o600;

/// Appends to a file, and rotates it.
#[derive(Debug)]
pub(super) struct RotatingFileWriter {
    path: PathBuf,
    max_bytes: u64,
}

impl RotatingFileWriter {
    pub(super) fn new(path: &Path) -> RotatingFileWriter {
        RotatingFileWriter {
            path: path.to_owned(),
            max_bytes: MAX_BYTES,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends bytes, to a new file if the current one would grow too large. The file is opened each time, since it may
    /// be renamed or removed at any time.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.open()?;
        if file.metadata()?.len() + bytes.len() as u64 > self.max_bytes {
            self.rotate()?;
            file = self.open()?;
        }
        file.write_all(bytes)
    }

    fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options
            .append(true)
            .create(true)
            .mode(FILE_MODE)
            .open(&self.path)
    }

    fn rotate(&self) -> io::Result<()> {
        for number in (0..BACKUPS).rev() {
            let from = match number {
                0 => self.path.clone(),
                _ => self.backup(number - 1),
            };
            match fs::rename(from, self.backup(number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn backup(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

// Finds QEMU's log pipes that have lost their reader, reopens them, and copies their data to files.
//
// QEMU writes the serial console's log and its own messages to pipes that virtlogd reads. When virtlogd dies, the
// pipes have no reader: QEMU continues and its output is lost, also when virtlogd runs again, since the new virtlogd
// does not know these pipes. QEMU still has the writing ends open. Opening one of these for reading through
// `/proc/PID/fd` gives the same pipe a reader again. The launcher then writes the file itself, until this QEMU ends.

/// Maximum number of bytes that are read at once: the capacity of a pipe.
const PIPE_BYTES: usize = 64 * 1024;
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
    let mut chunk = vec![0; PIPE_BYTES];
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
    use std::io::Write;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_line_of_a_late_growing_or_replaced_file_is_read_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vm.log");
        let mut tail = Tail::default();
        let mut lines = Vec::new();
        let mut drain = |tail: &mut Tail| {
            while tail.read_more(&path, &mut |line: &str| lines.push(line.to_owned())) {}
        };
        drain(&mut tail);
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        drain(&mut tail);
        file.write_all(b"o\n").unwrap();
        drain(&mut tail);
        fs::rename(&path, directory.path().join("vm.log.0")).unwrap();
        fs::write(&path, "three\n").unwrap();
        drain(&mut tail);
        drain(&mut tail);
        assert_eq!(lines, ["one", "two", "three"]);
    }

    #[test]
    fn large_log_is_rotated_with_three_backups() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("serial");
        let mut file = RotatingFileWriter {
            path: path.clone(),
            max_bytes: 8,
        };
        for line in [
            "one\n", "two\n", "three\n", "four56\n", "five67\n", "six789\n",
        ] {
            file.write(line.as_bytes()).unwrap();
        }
        let text = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!(text(&path), "six789\n");
        assert_eq!(text(&file.backup(0)), "five67\n");
        assert_eq!(text(&file.backup(1)), "four56\n");
        assert_eq!(text(&file.backup(2)), "three\n");
        assert!(!file.backup(3).exists());
    }

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
            sleep(Duration::from_millis(20)).await;
        }
    }
}
