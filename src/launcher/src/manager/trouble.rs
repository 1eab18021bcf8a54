//! Trouble, told: Kubernetes events, and what virt-handler hears of a panic with every notification.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::wire::{DomainStatus, GuestPanicInfo};
use libvirt::Event;

use crate::blocking;
use crate::notify::{self, Notifier, Trouble, Troubles};

/// A panic is among the last things in QEMU's log.
const TAIL: u64 = 64 * 1024;
const READ: Duration = Duration::from_secs(1);

/// Warns of trouble, and remembers the last panic.
pub(super) struct Warner {
    qemu_log: PathBuf,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    troubles: Troubles,
    panic: Option<GuestPanicInfo>,
    panics: i64,
}

impl Warner {
    /// `qemu_log` is where libvirt has QEMU's output written.
    pub(super) fn new(qemu_log: PathBuf) -> Warner {
        Warner {
            qemu_log,
            known: Mutex::default(),
        }
    }

    /// Warns of what an event of the domain means, if anything.
    pub(super) async fn observe(&self, event: &Event, notifier: &Notifier) {
        let trouble = self.known().troubles.observe(event);
        match trouble {
            Some(Trouble::Panic) => self.panicked(notifier).await,
            Some(Trouble::Disks(warnings)) => warnings.iter().for_each(|warning| {
                tracing::warn!("{}", warning.message);
                notifier.warning(warning);
            }),
            None => {}
        }
    }

    /// Adds the last panic, if there was one.
    pub(super) fn complete(&self, status: &mut DomainStatus) {
        let known = self.known();
        status.guest_panic_info.clone_from(&known.panic);
        status.panic_count = known.panics;
    }

    async fn panicked(&self, notifier: &Notifier) {
        let path = self.qemu_log.clone();
        let log = blocking::call("reading QEMU's log", READ, move || tail(&path)).await;
        let (warning, info) = notify::panic(&log.unwrap_or_default());
        tracing::warn!("{}", warning.message);
        notifier.warning(&warning);
        let mut known = self.known();
        known.panic = Some(info);
        known.panics += 1;
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a file; nothing when it cannot be read, for then there are just no details.
fn tail(path: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(path) {
        let size = file.metadata().map_or(0, |about| about.len());
        let _ = file.seek(SeekFrom::Start(size.saturating_sub(TAIL)));
        let _ = file.take(TAIL).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_end_of_a_long_log() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{}end", "x".repeat(100_000))).unwrap();
        let text = tail(file.path());
        assert!(text.ends_with("end") && text.len() as u64 == TAIL);
        assert_eq!(tail(Path::new("/nowhere")), "");
    }
}
