//! The record of a migration in KubeVirt's metadata, which virt-handler reads in notifications.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubevirt_api::domain_metadata::Migration;
use kubevirt_api::migration_metadata_values::abort_status;

use super::monitor::MigrationMode;
use crate::jobs::{JobError, JobRecorder};
use crate::timestamp;

/// Part of libvirt's error of an aborted job.
const LIBVIRT_CANCELED_TEXT: &str = "canceled by client";
const ABORT_FAILURE_REASON: &str = "Live migration has been aborted";
/// Part of QEMU's error if a target volume is smaller than the disk.
const QEMU_SMALL_VOLUME_TEXT: &str =
    "has to be smaller or equal to the actual size of the containing file";
const SMALL_VOLUME_PREFIX: &str = "Volume migration cannot be performed because the destination volume is smaller than the \
                              source volume: ";

/// The record of a migration. Every change is published. Clones share the record.
#[derive(Clone)]
pub(in crate::jobs) struct MigrationRecord {
    state: Arc<Mutex<State>>,
    recorder: Arc<dyn JobRecorder>,
}

struct State {
    migration: Migration,
    /// Whether libvirt's call has failed, so that a request to abort has no effect and the reason of the failure stays.
    ignores_aborts: bool,
}

impl MigrationRecord {
    /// Creates and publishes the record of a migration that begins.
    pub(in crate::jobs) fn begin(uid: &str, recorder: Arc<dyn JobRecorder>) -> MigrationRecord {
        let migration = Migration::begin(uid, timestamp::now());
        recorder.set_migration(migration.clone());
        MigrationRecord {
            state: Arc::new(Mutex::new(State {
                migration,
                ignores_aborts: false,
            })),
            recorder,
        }
    }

    /// Sets how the guest is being migrated.
    pub(super) fn set_mode(&self, mode: MigrationMode) {
        self.change(|record| mode.as_str().clone_into(&mut record.mode));
    }

    /// Records that the migration is being aborted.
    pub(super) fn begin_abort(&self) {
        self.change(|record| abort_status::ABORTING.clone_into(&mut record.abort_status));
    }

    /// Records that virt-handler requests an abort. Returns false if the migration has ended or failed, or is being
    /// aborted already.
    pub(in crate::jobs) fn request_abort(&self) -> bool {
        let mut state = self.lock();
        let has_ended = state.migration.end_timestamp.is_some() || state.ignores_aborts;
        if has_ended || state.migration.abort_status == abort_status::ABORTING {
            return false;
        }
        abort_status::ABORTING.clone_into(&mut state.migration.abort_status);
        self.recorder.set_migration(state.migration.clone());
        true
    }

    /// Ignores requests to abort from now on, because libvirt's call has failed.
    pub(super) fn ignore_aborts(&self) {
        self.lock().ignores_aborts = true;
    }

    /// Accepts requests to abort again while it is unknown where the guest is, so that virt-handler learns that its
    /// abort failed.
    pub(super) fn accept_aborts(&self) {
        self.lock().ignores_aborts = false;
    }

    /// Records that an abort failed.
    pub(super) fn fail_abort(&self) {
        self.change(|record| abort_status::FAILED.clone_into(&mut record.abort_status));
    }

    /// Records that a requested abort, if there is one, came too late.
    pub(super) fn fail_pending_abort(&self) {
        self.change(fail_pending_abort);
    }

    /// Completes the record with the result of the migration.
    pub(in crate::jobs) fn complete(&self, result: Result<(), JobError>) {
        // A pending abort must not replace the reason: the user must learn that the guest may be on the target.
        let is_lost = matches!(result, Err(JobError::GuestMayHaveMoved(_)));
        let failure = result.err().map(|error| failure_reason(&error.to_string()));
        self.change(|record| {
            if is_lost {
                fail_pending_abort(record);
            }
            complete(record, timestamp::now(), failure);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Migration)) {
        let mut state = self.lock();
        let before = state.migration.clone();
        change(&mut state.migration);
        if state.migration != before {
            self.recorder.set_migration(state.migration.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fail_pending_abort(record: &mut Migration) {
    if record.abort_status == abort_status::ABORTING {
        abort_status::FAILED.clone_into(&mut record.abort_status);
    }
}

/// Completes the record. A requested abort counts as succeeded only if the migration has failed; an abort that came too
/// late is removed from the record.
fn complete(record: &mut Migration, now: String, failure: Option<String>) {
    if record.end_timestamp.is_some() {
        return;
    }
    record.end_timestamp = Some(now);
    match failure {
        None => record.abort_status.clear(),
        // libvirt's reason does not matter: it may be that the target closed the connection first.
        Some(_) if record.abort_status == abort_status::ABORTING => {
            record.failed = true;
            ABORT_FAILURE_REASON.clone_into(&mut record.failure_reason);
            abort_status::SUCCEEDED.clone_into(&mut record.abort_status);
        }
        Some(reason) => {
            record.failed = true;
            record.failure_reason = reason;
        }
    }
}

/// The reason in the form that KubeVirt's users search for.
fn failure_reason(error: &str) -> String {
    if error.contains(LIBVIRT_CANCELED_TEXT) {
        return ABORT_FAILURE_REASON.to_owned();
    }
    let words: Vec<&str> = error.split_whitespace().collect();
    match words.join(" ").contains(QEMU_SMALL_VOLUME_TEXT) {
        true => format!("{SMALL_VOLUME_PREFIX}{error}"),
        false => error.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(abort_status: &str, failure: Option<&str>) -> Migration {
        let mut record = Migration {
            abort_status: abort_status.into(),
            ..Migration::begin("m", "s".into())
        };
        complete(&mut record, "e".into(), failure.map(failure_reason));
        record
    }

    #[test]
    fn requested_abort_succeeds_when_the_migration_fails() {
        let error = "virError(Code=78, Domain=10, Message='operation aborted: migration out job: canceled by client')";
        let aborted = ended("Aborting", Some(error));
        assert_eq!(aborted.abort_status, "Succeeded");
        assert_eq!(aborted.failure_reason, "Live migration has been aborted");
        assert!(aborted.failed && aborted.end_timestamp.as_deref() == Some("e"));
        let closed = ended("Aborting", Some("internal error: client socket is closed"));
        assert_eq!(closed.failure_reason, "Live migration has been aborted");
        assert_eq!(
            ended("", Some(error)).failure_reason,
            "Live migration has been aborted"
        );
        assert_eq!(ended("Failed", Some("x")).abort_status, "Failed");
        assert_eq!(ended("", Some("x")).abort_status, "");
    }

    #[test]
    fn abort_that_came_too_late_is_removed_from_the_record() {
        for status in ["", "Aborting", "Failed"] {
            let record = ended(status, None);
            assert_eq!(record.abort_status, "", "{status}");
            assert!(!record.failed && record.failure_reason.is_empty());
        }
    }

    #[test]
    fn record_is_completed_only_once() {
        let mut record = ended("", None);
        complete(&mut record, "later".into(), Some("x".into()));
        assert_eq!(record.end_timestamp.as_deref(), Some("e"));
        assert!(!record.failed);
    }

    #[test]
    fn reason_explains_a_target_volume_that_is_too_small() {
        let error = "virError(Code=1, Domain=10, Message='slice has to be smaller\n or  equal to the actual size of the \
                     containing file')";
        let reason = failure_reason(error);
        assert!(
            reason.starts_with("Volume migration cannot be performed"),
            "{reason}"
        );
        assert!(reason.ends_with(error));
        assert_eq!(failure_reason("other"), "other");
    }
}
