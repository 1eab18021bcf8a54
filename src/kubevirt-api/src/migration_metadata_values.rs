//! Values of a migration's metadata (mode, abort status), and whether a request starts a new migration.

use crate::domain_metadata::Migration;

/// The phase of a migration: `Mode` in its metadata.
pub mod mode {
    /// The guest runs on the source.
    pub const PRE_COPY: &str = "PreCopy";
    /// The guest already runs on the target, and its memory is still being sent.
    pub const POST_COPY: &str = "PostCopy";
    /// The guest is paused until the migration ends.
    pub const PAUSED: &str = "Paused";
}

/// The progress of a cancellation: `AbortStatus` in the migration's metadata.
pub mod abort_status {
    /// The cancellation has been requested.
    pub const ABORTING: &str = "Aborting";
    /// libvirt has aborted the migration job.
    pub const SUCCEEDED: &str = "Succeeded";
    /// There was no job to abort, or libvirt could not abort it.
    pub const FAILED: &str = "Failed";
}

/// The requested migration, compared with the last one in the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedMigration {
    /// The request is for a new migration.
    New,
    /// The request is for the migration that is in progress.
    UnderWay,
    /// The request is for the migration that has ended. A migration is executed only once.
    Ended,
}

impl Migration {
    /// The metadata of a migration that starts now.
    pub fn begin(uid: &str, now: String) -> Migration {
        Migration {
            uid: uid.to_owned(),
            start_timestamp: Some(now),
            mode: mode::PRE_COPY.to_owned(),
            ..Migration::default()
        }
    }

    /// Compares a request for the migration with this UID with the last migration.
    pub fn request(last: Option<&Migration>, uid: &str) -> RequestedMigration {
        match last {
            Some(last) if last.uid == uid && last.end_timestamp.is_none() => {
                RequestedMigration::UnderWay
            }
            Some(last) if last.uid == uid => RequestedMigration::Ended,
            _ => RequestedMigration::New,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migration_of_the_same_uid_is_executed_once() {
        let mut metadata = Migration::begin("a", "2026-01-01T00:00:00Z".into());
        assert_eq!(metadata.mode, mode::PRE_COPY);
        assert_eq!(Migration::request(None, "a"), RequestedMigration::New);
        assert_eq!(
            Migration::request(Some(&metadata), "b"),
            RequestedMigration::New
        );
        assert_eq!(
            Migration::request(Some(&metadata), "a"),
            RequestedMigration::UnderWay
        );
        metadata.end_timestamp = Some("2026-01-01T00:00:01Z".into());
        assert_eq!(
            Migration::request(Some(&metadata), "a"),
            RequestedMigration::Ended
        );
    }
}
