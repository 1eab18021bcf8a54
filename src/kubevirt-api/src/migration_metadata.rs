//! Values of a migration's metadata (mode, abort status), and whether a request starts a new migration.

use crate::domain_metadata::Migration;

/// How a migration proceeds: `Mode` in its metadata.
pub mod mode {
    /// The guest runs on the source.
    pub const PRE_COPY: &str = "PreCopy";
    /// The guest runs on the target already, memory follows.
    pub const POST_COPY: &str = "PostCopy";
    /// The guest is paused until the end.
    pub const PAUSED: &str = "Paused";
}

/// How far a cancellation is: `AbortStatus` in the migration's metadata.
pub mod abort_status {
    /// It has been requested.
    pub const ABORTING: &str = "Aborting";
    /// libvirt has aborted its job.
    pub const SUCCEEDED: &str = "Succeeded";
    /// There was nothing to abort, or libvirt could not.
    pub const FAILED: &str = "Failed";
}

/// A request to migrate, compared with the metadata of the last migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationRequest {
    /// Another migration.
    New,
    /// The one that is under way.
    UnderWay,
    /// The one that has ended. A migration is executed once.
    Ended,
}

impl Migration {
    /// The metadata of a migration that begins.
    pub fn begin(uid: &str, now: String) -> Migration {
        Migration {
            uid: uid.to_owned(),
            start_timestamp: Some(now),
            mode: mode::PRE_COPY.to_owned(),
            ..Migration::default()
        }
    }

    /// What a request for the migration of this UID is.
    pub fn request(last: Option<&Migration>, uid: &str) -> MigrationRequest {
        match last {
            Some(last) if last.uid == uid && last.end_timestamp.is_none() => {
                MigrationRequest::UnderWay
            }
            Some(last) if last.uid == uid => MigrationRequest::Ended,
            _ => MigrationRequest::New,
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
        assert_eq!(Migration::request(None, "a"), MigrationRequest::New);
        assert_eq!(
            Migration::request(Some(&metadata), "b"),
            MigrationRequest::New
        );
        assert_eq!(
            Migration::request(Some(&metadata), "a"),
            MigrationRequest::UnderWay
        );
        metadata.end_timestamp = Some("2026-01-01T00:00:01Z".into());
        assert_eq!(
            Migration::request(Some(&metadata), "a"),
            MigrationRequest::Ended
        );
    }
}
