//! SeaBIOS' debug log. QEMU writes it into a named pipe: a file would grow for as long as the guest likes.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio::net::unix::pipe::{OpenOptions, Receiver};
use tokio::task::JoinHandle;

use super::log_lines;
use super::seabios_log_rate_limit::{LineDecision, LogRateLimit};

/// QEMU may run as another user.
const MODE: u32 = 0o666;
const PREFIX: &str = "[SeaBios]:";

/// Makes the pipe and logs its lines, of every boot. Without the pipe QEMU makes a file: that is logged.
pub(super) fn follow(path: &Path) -> Option<JoinHandle<()>> {
    let pipe = open(path).inspect_err(|error| {
        tracing::warn!(pipe = %path.display(), %error,
            "QEMU writes the firmware's log into a file that grows without limit; with a lower verbosity it writes none");
    });
    let mut limit = LogRateLimit::default();
    let log = move |line: &str| match limit.observe(line.len(), Instant::now()) {
        LineDecision::Log => log_lines::log_qemu(&format!("{PREFIX} {line}")),
        LineDecision::DropFirst => {
            tracing::warn!(
                "the guest writes too much into its firmware's log: the rest of this second is dropped"
            );
        }
        LineDecision::Drop => {}
    };
    Some(tokio::spawn(log_lines::each(pipe.ok()?, log)))
}

/// Opens the pipe for writing too, so that QEMU need not wait for a reader and its end is not the end of the log.
fn open(path: &Path) -> io::Result<Receiver> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(MODE), 0)?;
    // The umask has narrowed the mode.
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    OpenOptions::new().read_write(true).open_receiver(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;
    use std::os::unix::fs::FileTypeExt;

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn lines_of_every_boot_are_read_and_none_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        fs::write(&path, "left by QEMU").unwrap();
        let pipe = open(&path).unwrap();
        let (lines, mut received) = mpsc::unbounded_channel();
        tokio::spawn(log_lines::each(pipe, move |line| {
            lines.send(line.to_owned()).unwrap();
        }));
        for boot in ["first", "second"] {
            // As QEMU opens it: it would truncate a file.
            let mut qemu = fs::File::create(&path).unwrap();
            writeln!(qemu, "SeaBIOS, {boot} boot").unwrap();
            drop(qemu);
            let line = received.recv().await.unwrap();
            assert_eq!(line, format!("SeaBIOS, {boot} boot"));
        }
        let metadata = fs::metadata(&path).unwrap();
        assert!(metadata.file_type().is_fifo());
        assert_eq!(metadata.permissions().mode() & 0o777, MODE);
    }

    #[tokio::test]
    async fn missing_directory_does_not_panic() {
        assert!(follow(Path::new("/nonexistent/pipe")).is_none());
    }
}
