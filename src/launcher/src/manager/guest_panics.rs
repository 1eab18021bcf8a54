//! The panics of the guest: their number and the last one, with details from QEMU's log, for events and notifications.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubevirt_api::domain_json::{DomainStatus, GuestPanicInfo};

use crate::blocking;
use crate::notify::{self, Warning};

/// How much of QEMU's log is read at most: a panic is near its end.
const LOG_TAIL_BYTES: u64 = 64 * 1024;
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// The panics of the guest since the launcher started.
pub(super) struct GuestPanics {
    qemu_log: PathBuf,
    state: Mutex<PanicState>,
}

#[derive(Default)]
struct PanicState {
    last: Option<GuestPanicInfo>,
    count: i64,
    /// The size of the log at the last panic: what precedes it is about earlier panics.
    log_size: u64,
}

impl GuestPanics {
    /// `qemu_log` is the file to which libvirt writes QEMU's output.
    pub(super) fn new(qemu_log: PathBuf) -> GuestPanics {
        GuestPanics {
            qemu_log,
            state: Mutex::default(),
        }
    }

    /// Records a panic. Returns its warning, with the details in QEMU's log.
    pub(super) async fn record(&self) -> Warning {
        let path = self.qemu_log.clone();
        let from = self.lock_state().log_size;
        let read = move || tail(&path, from);
        let log = blocking::file_call("reading QEMU's log", READ_TIMEOUT, read).await;
        let (log, size) = log.unwrap_or_else(|_| (String::new(), from));
        let (warning, info) = notify::panic_warning(&log);
        let mut state = self.lock_state();
        state.last = Some(info);
        state.count += 1;
        state.log_size = size;
        warning
    }

    /// Adds the last panic and the number of panics to the status of a notification.
    pub(super) fn add_to_status(&self, status: &mut DomainStatus) {
        let state = self.lock_state();
        status.guest_panic_info.clone_from(&state.last);
        status.panic_count = state.count;
    }

    fn lock_state(&self) -> MutexGuard<'_, PanicState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of the file from byte `from` on, at most [`LOG_TAIL_BYTES`], and the file's size. If the file cannot be read,
/// the text is empty and the size is `from`: the alert then has no details, and the next one none of this panic.
fn tail(path: &Path, from: u64) -> (String, u64) {
    let mut bytes = Vec::new();
    let mut size = from;
    if let Ok(mut file) = File::open(path) {
        size = file.metadata().map_or(from, |metadata| metadata.len());
        // virtlogd starts a new file when the log is full.
        let from = if from > size { 0 } else { from };
        let _ = file.seek(SeekFrom::Start(
            size.saturating_sub(LOG_TAIL_BYTES).max(from),
        ));
        let _ = file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes);
    }
    (String::from_utf8_lossy(&bytes).into_owned(), size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_reads_the_end_of_a_long_log() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{}end", "x".repeat(100_000))).unwrap();
        let (text, size) = tail(file.path(), 0);
        assert!(text.ends_with("end") && text.len() as u64 == LOG_TAIL_BYTES);
        assert_eq!(size, 100_003);
        assert_eq!(tail(Path::new("/nowhere"), 7), (String::new(), 7));
    }

    #[test]
    fn lines_about_an_earlier_panic_are_not_read_again() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "panic hyper-v: arg1='0x5a'\n").unwrap();
        let (first, size) = tail(file.path(), 0);
        assert!(first.contains("hyper-v"));
        std::fs::write(file.path(), format!("{first}boot\n")).unwrap();
        assert_eq!(tail(file.path(), size).0, "boot\n");
        std::fs::write(file.path(), "new\n").unwrap();
        assert_eq!(tail(file.path(), size).0, "new\n");
    }
}
