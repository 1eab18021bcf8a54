//! What libvirt's daemon has logged about the migration from this pod.
//!
//! libvirt's call returns one error. If the target's daemon ends right after a failure, that error is the closed connection
//! to it, whatever has failed before: libvirt notes the failure, closes the connection, and notes that error instead. Only
//! the log has the failure.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// Prefix of the functions of libvirt that run migrations.
const FUNCTIONS: &str = "qemuMigration";
/// The log arrives through a pipe, independently of the call's answer.
const LATE: Duration = Duration::from_millis(500);
/// The longest message that is kept, in characters.
const LONGEST: usize = 1024;

/// The first error of the current migration. Clones are the same log.
#[derive(Clone, Debug, Default)]
pub struct MigrationErrorLog(Arc<watch::Sender<Option<String>>>);

impl MigrationErrorLog {
    /// Takes in an error from libvirt's log: where it was raised, such as `qemuMigrationSrcRun:100`, and its message.
    pub fn observe(&self, position: &str, message: &str) {
        if position.starts_with(FUNCTIONS) {
            self.0.send_if_modified(|first| {
                let is_first = first.is_none();
                first.get_or_insert_with(|| message.chars().take(LONGEST).collect());
                is_first
            });
        }
    }

    /// Another migration begins.
    pub(crate) fn clear(&self) {
        self.0.send_replace(None);
    }

    /// The first error of the migration. Waits for one that has not arrived from the log yet.
    pub(crate) async fn first_error(&self) -> Option<String> {
        let mut first = self.0.subscribe();
        let logged = tokio::time::timeout(LATE, first.wait_for(Option::is_some));
        logged.await.ok()?.ok()?.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn first_error_of_the_current_migration_counts() {
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
        log.observe("qemuMigrationSrcRun:1", &"ä".repeat(LONGEST * 2));
        let length = log.first_error().await.map(|text| text.chars().count());
        assert_eq!(length, Some(LONGEST));
    }
}
