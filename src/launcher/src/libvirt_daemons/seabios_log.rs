//! Logs SeaBIOS' debug log, which QEMU writes to a named pipe: a file could be made to grow without limit by the guest.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio::net::unix::pipe::{OpenOptions, Receiver};
use tokio::task::JoinHandle;

use super::log_lines;

/// Mode of the pipe. QEMU may run as another user.
const PIPE_MODE: u32 = 0o666;
const LINE_PREFIX: &str = "[SeaBios]:";

/// Makes the pipe and logs the lines of every boot. If the pipe cannot be made, QEMU makes a file instead; this is
/// logged as a warning.
pub(super) fn follow(path: &Path) -> Option<JoinHandle<()>> {
    let pipe = make_pipe(path).inspect_err(|error| {
        tracing::warn!(pipe = %path.display(), %error,
            "QEMU writes the firmware's log into a file that grows without limit; with a lower verbosity it writes none");
    });
    let mut limit = LogRateLimit::default();
    let log = move |line: &str| match limit.observe(line.len(), Instant::now()) {
        LineDecision::Log => log_lines::log_qemu(&format!("{LINE_PREFIX} {line}")),
        LineDecision::DropFirst => {
            tracing::warn!(
                "the guest writes too much into its firmware's log: the rest of this second is dropped"
            );
        }
        LineDecision::Drop => {}
    };
    Some(tokio::spawn(log_lines::for_each(pipe.ok()?, log)))
}

/// Makes and opens the pipe. It is open for writing too, so that QEMU need not wait for a reader, and the pipe does not
/// end when QEMU ends.
fn make_pipe(path: &Path) -> io::Result<Receiver> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(PIPE_MODE), 0)?;
    // `mknod` has applied the umask.
    fs::set_permissions(path, Permissions::from_mode(PIPE_MODE))?;
    OpenOptions::new().read_write(true).open_receiver(path)
}

/// Maximum number of bytes per second. SeaBIOS writes less in a whole boot.
const MAX_BYTES_PER_SECOND: usize = 256 * 1024;
/// How many bytes the launcher adds to a line.
const OVERHEAD_BYTES_PER_LINE: usize = 128;
const WINDOW: Duration = Duration::from_secs(1);

/// Counts the bytes of the log per second. Pure.
#[derive(Debug, Default)]
pub(super) struct LogRateLimit {
    /// The start of the current second.
    window_start: Option<Instant>,
    bytes: usize,
    is_exceeded: bool,
}

/// What to do with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineDecision {
    /// Log it.
    Log,
    /// Drop it, and log that lines are dropped until the second is over.
    DropFirst,
    /// Drop it.
    Drop,
}

impl LogRateLimit {
    /// Decides on a line of `length` bytes.
    pub(super) fn observe(&mut self, length: usize, now: Instant) -> LineDecision {
        let is_over = |begin: Instant| now.saturating_duration_since(begin) >= WINDOW;
        if self.window_start.is_none_or(is_over) {
            *self = LogRateLimit {
                window_start: Some(now),
                ..LogRateLimit::default()
            };
        }
        self.bytes += length + OVERHEAD_BYTES_PER_LINE;
        match (
            self.bytes > MAX_BYTES_PER_SECOND,
            std::mem::replace(&mut self.is_exceeded, self.bytes > MAX_BYTES_PER_SECOND),
        ) {
            (false, _) => LineDecision::Log,
            (true, false) => LineDecision::DropFirst,
            (true, true) => LineDecision::Drop,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::FileTypeExt;

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn lines_of_every_boot_are_read_from_the_pipe() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        fs::write(&path, "left by QEMU").unwrap();
        let pipe = make_pipe(&path).unwrap();
        let (lines, mut received) = mpsc::unbounded_channel();
        tokio::spawn(log_lines::for_each(pipe, move |line| {
            lines.send(line.to_owned()).unwrap();
        }));
        for boot in ["first", "second"] {
            // QEMU opens the pipe in the same way; a file would be truncated.
            let mut qemu = fs::File::create(&path).unwrap();
            writeln!(qemu, "SeaBIOS, {boot} boot").unwrap();
            drop(qemu);
            let line = received.recv().await.unwrap();
            assert_eq!(line, format!("SeaBIOS, {boot} boot"));
        }
        let metadata = fs::metadata(&path).unwrap();
        assert!(metadata.file_type().is_fifo());
        assert_eq!(metadata.permissions().mode() & 0o777, PIPE_MODE);
    }

    #[tokio::test]
    async fn missing_directory_does_not_panic() {
        assert!(follow(Path::new("/nonexistent/pipe")).is_none());
    }

    #[test]
    fn flood_is_dropped_and_reported_once_a_second() {
        let begin = Instant::now();
        let mut limit = LogRateLimit::default();
        for second in 0..3 {
            let now = begin + WINDOW * second;
            let lines: Vec<_> = (0..10_000).map(|_| limit.observe(80, now)).collect();
            let count = |wanted| lines.iter().filter(|decision| **decision == wanted).count();
            assert_eq!(
                count(LineDecision::Log),
                MAX_BYTES_PER_SECOND / (80 + OVERHEAD_BYTES_PER_LINE)
            );
            assert_eq!(count(LineDecision::DropFirst), 1);
            assert_eq!(lines.last(), Some(&LineDecision::Drop));
        }
    }

    #[test]
    fn boot_is_logged_completely() {
        let now = Instant::now();
        let mut limit = LogRateLimit::default();
        assert!((0..1000).all(|_| limit.observe(80, now) == LineDecision::Log));
    }
}
