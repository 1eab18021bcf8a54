//! Reports alerts as Kubernetes events, and the last panic of the guest also in every later notification.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kubevirt_api::domain_json::{DomainStatus, GuestPanicInfo};
use libvirt::{DiskFault, Event};

use crate::blocking;
use crate::notify::{self, Alert, AlertPolicy, Notifier, Warning};

/// How much of QEMU's log is read at most: a panic is near its end.
const LOG_TAIL_BYTES: u64 = 64 * 1024;
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends alerts, and remembers the last panic.
pub(super) struct AlertReporter {
    qemu_log: PathBuf,
    /// The size of the log at the last panic: what precedes it is about earlier panics.
    reported_bytes: AtomicU64,
    reported: Mutex<ReportedProblems>,
}

#[derive(Default)]
struct ReportedProblems {
    alerts: AlertPolicy,
    panic: Option<GuestPanicInfo>,
    panics: i64,
}

impl AlertReporter {
    /// `qemu_log` is the file to which libvirt writes QEMU's output.
    pub(super) fn new(qemu_log: PathBuf) -> AlertReporter {
        AlertReporter {
            qemu_log,
            reported_bytes: AtomicU64::new(0),
            reported: Mutex::default(),
        }
    }

    /// Sends the alerts that follow from an event of the domain.
    pub(super) async fn observe(&self, event: &Event, notifier: &Notifier) {
        let alert = self.reported().alerts.observe(event);
        self.report(alert, notifier).await;
    }

    /// Sends the alert of a VM that is paused by disk errors, unless it was sent for libvirt's event.
    pub(super) async fn observe_pause(
        &self,
        errors: BTreeMap<String, DiskFault>,
        notifier: &Notifier,
    ) {
        let alert = self.reported().alerts.observe_pause(errors);
        self.report(alert, notifier).await;
    }

    async fn report(&self, alert: Option<Alert>, notifier: &Notifier) {
        match alert {
            Some(Alert::Panic) => self.report_panic(notifier).await,
            Some(Alert::Disks(warnings)) => {
                warnings.iter().for_each(|warning| warn(warning, notifier))
            }
            Some(Alert::Device(warning) | Alert::Watchdog(warning)) => warn(&warning, notifier),
            None => {}
        }
    }

    /// Adds the last panic and the number of panics to the status of a notification.
    pub(super) fn add_panic(&self, status: &mut DomainStatus) {
        let reported = self.reported();
        status.guest_panic_info.clone_from(&reported.panic);
        status.panic_count = reported.panics;
    }

    async fn report_panic(&self, notifier: &Notifier) {
        let path = self.qemu_log.clone();
        let from = self.reported_bytes.load(Ordering::Relaxed);
        let read = move || tail(&path, from);
        let log = blocking::file_call("reading QEMU's log", READ_TIMEOUT, read).await;
        let (log, size) = log.unwrap_or_default();
        self.reported_bytes.store(size, Ordering::Relaxed);
        let (warning, info) = notify::panic_warning(&log);
        tracing::warn!("{}", warning.message);
        notifier.warning(&warning);
        let mut reported = self.reported();
        reported.panic = Some(info);
        reported.panics += 1;
    }

    fn reported(&self) -> std::sync::MutexGuard<'_, ReportedProblems> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn warn(warning: &Warning, notifier: &Notifier) {
    tracing::warn!("{}", warning.message);
    notifier.warning(warning);
}

/// The end of the file from byte `from` on, at most [`LOG_TAIL_BYTES`], and the file's size. The text is empty if the
/// file cannot be read: the alert then has no details.
fn tail(path: &Path, from: u64) -> (String, u64) {
    let mut bytes = Vec::new();
    let mut size = 0;
    if let Ok(mut file) = File::open(path) {
        size = file.metadata().map_or(0, |metadata| metadata.len());
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
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn tail_reads_the_end_of_a_long_log() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{}end", "x".repeat(100_000))).unwrap();
        let (text, size) = tail(file.path(), 0);
        assert!(text.ends_with("end") && text.len() as u64 == LOG_TAIL_BYTES);
        assert_eq!(size, 100_003);
        assert_eq!(tail(Path::new("/nowhere"), 0), (String::new(), 0));
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
