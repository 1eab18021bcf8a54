//! The record of a migration, which virt-handler reads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubevirt_api::domain_metadata::Migration;
use kubevirt_api::migration_metadata::abort_status;

use super::monitor::Mode;
use crate::jobs::{JobError, JobRecorder};
use crate::timestamp;

/// The text of libvirt's error for an aborted job.
const CANCELED: &str = "canceled by client";
const ABORTED: &str = "Live migration has been aborted";
/// QEMU's words for a target volume that is smaller than the disk.
const SMALLER: &str = "has to be smaller or equal to the actual size of the containing file";
const SMALLER_PREFIX: &str = "Volume migration cannot be performed because the destination volume is smaller than the \
                              source volume: ";

/// The record; every change is published. Clones are the same record.
#[derive(Clone)]
pub(in crate::jobs) struct MigrationRecord {
    state: Arc<Mutex<State>>,
    recorder: Arc<dyn JobRecorder>,
}

struct State {
    migration: Migration,
    /// libvirt's call has failed: a request to abort has no effect, and the failure's reason stays.
    denies_aborts: bool,
}

impl MigrationRecord {
    /// Publishes that the migration begins.
    pub(in crate::jobs) fn begin(uid: &str, recorder: Arc<dyn JobRecorder>) -> MigrationRecord {
        let begun = Migration::begin(uid, timestamp::now());
        recorder.set_migration(begun.clone());
        MigrationRecord {
            state: Arc::new(Mutex::new(State {
                migration: begun,
                denies_aborts: false,
            })),
            recorder,
        }
    }

    /// How the guest is migrated now.
    pub(super) fn set_mode(&self, mode: Mode) {
        self.change(|record| mode.as_str().clone_into(&mut record.mode));
    }

    /// The migration is being aborted.
    pub(super) fn begin_abort(&self) {
        self.change(|record| abort_status::ABORTING.clone_into(&mut record.abort_status));
    }

    /// virt-handler asks for an abort; false if the migration has ended or failed, or is being aborted already.
    pub(in crate::jobs) fn request_abort(&self) -> bool {
        let mut state = self.lock();
        let has_ended = state.migration.end_timestamp.is_some() || state.denies_aborts;
        if has_ended || state.migration.abort_status == abort_status::ABORTING {
            return false;
        }
        abort_status::ABORTING.clone_into(&mut state.migration.abort_status);
        self.recorder.set_migration(state.migration.clone());
        true
    }

    /// libvirt's call has failed: from now on nothing is aborted.
    pub(super) fn deny_aborts(&self) {
        self.lock().denies_aborts = true;
    }

    /// Nobody knows yet where the guest is: virt-handler hears that its abort fails.
    pub(super) fn allow_aborts(&self) {
        self.lock().denies_aborts = false;
    }

    /// There was nothing to abort, or it could not be aborted.
    pub(super) fn fail_abort(&self) {
        self.change(|record| abort_status::FAILED.clone_into(&mut record.abort_status));
    }

    /// Nothing is left to abort: a requested abort has come too late.
    pub(super) fn lose_abort(&self) {
        self.change(lose_abort);
    }

    /// The migration has ended.
    pub(in crate::jobs) fn complete(&self, result: Result<(), JobError>) {
        // The user must learn that the guest may be elsewhere.
        let is_lost = matches!(result, Err(JobError::GuestMayHaveMoved(_)));
        let failure = result.err().map(|error| failure_reason(&error.to_string()));
        self.change(|record| {
            if is_lost {
                lose_abort(record);
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

fn lose_abort(record: &mut Migration) {
    if record.abort_status == abort_status::ABORTING {
        abort_status::FAILED.clone_into(&mut record.abort_status);
    }
}

/// An abort has succeeded when the migration has stopped, and not before. One that came too late to stop the migration
/// is none.
fn complete(record: &mut Migration, now: String, failure: Option<String>) {
    if record.end_timestamp.is_some() {
        return;
    }
    record.end_timestamp = Some(now);
    match failure {
        None => record.abort_status.clear(),
        // Whatever libvirt says: the target may have closed the connection first.
        Some(_) if record.abort_status == abort_status::ABORTING => {
            record.failed = true;
            ABORTED.clone_into(&mut record.failure_reason);
            abort_status::SUCCEEDED.clone_into(&mut record.abort_status);
        }
        Some(reason) => {
            record.failed = true;
            record.failure_reason = reason;
        }
    }
}

/// The reason as KubeVirt's users search for it.
fn failure_reason(error: &str) -> String {
    if error.contains(CANCELED) {
        return ABORTED.to_owned();
    }
    let words: Vec<&str> = error.split_whitespace().collect();
    match words.join(" ").contains(SMALLER) {
        true => format!("{SMALLER_PREFIX}{error}"),
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
    fn abort_has_succeeded_when_the_migration_has_stopped() {
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
    fn late_abort_of_a_migration_that_succeeded_is_none() {
        for status in ["", "Aborting", "Failed"] {
            let record = ended(status, None);
            assert_eq!(record.abort_status, "", "{status}");
            assert!(!record.failed && record.failure_reason.is_empty());
        }
    }

    #[test]
    fn record_is_ended_once() {
        let mut record = ended("", None);
        complete(&mut record, "later".into(), Some("x".into()));
        assert_eq!(record.end_timestamp.as_deref(), Some("e"));
        assert!(!record.failed);
    }

    #[test]
    fn small_target_volume_is_explained() {
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
