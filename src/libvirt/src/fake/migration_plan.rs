//! How a test plans a fake migration, and the migration that was requested.

use std::time::Duration;

use crate::migration::MigrationRequest;

/// How a migration goes.
#[derive(Clone, Debug, Default)]
pub struct MigrationPlan {
    /// How long the target takes to get ready. An abort has no effect before.
    pub prepare: Duration,
    /// How long memory is transferred after that.
    pub transfer: Duration,
    /// The guest writes to its memory as fast as it is transferred: the transfer begins to end only when the guest is
    /// stopped, continues on the target, or has a downtime of more than a minute.
    pub never_converges: bool,
    /// Nothing is transferred any more.
    pub stuck: bool,
    /// An abort is accepted and has no effect until [`FakeDaemon::finish_hung_abort`](super::FakeDaemon::finish_hung_abort).
    pub abort_hangs: bool,
    /// The whole guest is on the target, which may run it: should the daemon die now, the next one leaves the guest paused.
    pub handed_over: bool,
    /// Should the daemon die, the next one takes this long to resume the guest. The state is that of the daemon that died
    /// meanwhile, and calls that need the domain's job wait.
    pub recovery: Duration,
}

/// A migration as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentMigration {
    /// The URI of the target.
    pub destination: String,
    /// The parameters.
    pub request: MigrationRequest,
}
