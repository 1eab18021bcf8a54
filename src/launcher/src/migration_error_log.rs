//! The first error that libvirt's daemon has logged about the migration from this pod.
//!
//! libvirt's migrate call returns one error. If the target's daemon ends right after a failure, that error is about the
//! closed connection and not about the failure: libvirt replaces the error of the failure when it closes the
//! connection. The failure is then only in the log.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// Prefix of the names of libvirt's functions that run migrations.
const MIGRATION_FUNCTION_PREFIX: &str = "qemuMigration";
/// How long to wait for the log, which arrives through a pipe and may be later than the result of the call.
const LOG_DELAY: Duration = Duration::from_millis(500);
/// Maximum length of the stored message, in characters.
const MAX_MESSAGE_CHARS: usize = 1024;

/// The first logged error of the current migration. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MigrationErrorLog(Arc<watch::Sender<Option<String>>>);

impl MigrationErrorLog {
    /// Takes in an error from libvirt's log: the position where it was raised, such as `qemuMigrationSrcRun:100`, and
    /// the message.
    pub fn observe(&self, position: &str, message: &str) {
        if position.starts_with(MIGRATION_FUNCTION_PREFIX) {
            self.0.send_if_modified(|first| {
                let is_first = first.is_none();
                first.get_or_insert_with(|| message.chars().take(MAX_MESSAGE_CHARS).collect());
                is_first
            });
        }
    }

    /// Forgets the error, because another migration begins.
    pub(crate) fn clear(&self) {
        self.0.send_replace(None);
    }

    /// The first error of the migration. Waits a moment for the log.
    pub(crate) async fn first_error(&self) -> Option<String> {
        let mut first = self.0.subscribe();
        let logged = tokio::time::timeout(LOG_DELAY, first.wait_for(Option::is_some));
        logged.await.ok()?.ok()?.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn first_error_of_the_current_migration_is_kept() {
        let log = MigrationErrorLog::default();
        assert_eq!(log.first_error().await, None);
        log.observe("virNetClientSendInternal:1", "client socket is closed");
        assert_eq!(log.first_error().await, None, "not about the migration");
        let (other, waiting) = (log.clone(), log.clone());
        let waiting = tokio::spawn(async move { waiting.first_error().await });
        tokio::task::yield_now().await;
        other.observe("qemuMigrationNBDReportMirrorError:798", "disk vda failed");
        other.observe("qemuMigrationSrcRun:1", "and so on");
        let first = waiting.await.ok().flatten();
        assert_eq!(first.as_deref(), Some("disk vda failed"));
        log.clear();
        assert_eq!(log.first_error().await, None);
    }

    #[tokio::test]
    async fn long_message_is_cut() {
        let log = MigrationErrorLog::default();
        log.observe("qemuMigrationSrcRun:1", &"ä".repeat(MAX_MESSAGE_CHARS * 2));
        let length = log.first_error().await.map(|text| text.chars().count());
        assert_eq!(length, Some(MAX_MESSAGE_CHARS));
    }
}
