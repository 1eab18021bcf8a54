//! The course of a simulated migration, as a test plans it, and the record of a requested migration.

use std::time::Duration;

use crate::migration::MigrationRequest;

/// The course of a migration.
#[derive(Clone, Debug, Default)]
pub struct MigrationPlan {
    /// How long the target's preparation takes. An abort has no effect until it is complete.
    pub prepare: Duration,
    /// How long the transfer of the memory takes after the preparation.
    pub transfer: Duration,
    /// The guest writes to its memory as fast as the memory is transferred. The transfer makes progress only once the
    /// guest is paused, continues on the target, or may have a downtime of more than a minute.
    pub never_converges: bool,
    /// The transfer makes no progress.
    pub stuck: bool,
    /// An abort is accepted, but has no effect until
    /// [`FakeDaemon::finish_hung_abort`](super::FakeDaemon::finish_hung_abort).
    pub abort_hangs: bool,
    /// The whole guest is on the target, which may run it: if the daemon dies now, the next daemon leaves the guest
    /// paused.
    pub handed_over: bool,
    /// How long the next daemon takes to resume the guest, if the daemon dies. Until then the domain's state is
    /// unchanged, and calls that need the domain's job wait.
    pub recovery: Duration,
}

/// A requested migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentMigration {
    /// The URI of the target.
    pub destination: String,
    /// The parameters.
    pub request: MigrationRequest,
}
