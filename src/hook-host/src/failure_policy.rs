//! The failure policy of a hook: whether a failure ends what the hook was called for.

use serde::Deserialize;

/// What happens if a hook vetoes, fails, crashes, takes too long, returns an invalid result, or makes a change that is
/// not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum FailurePolicy {
    /// What the hook was called for fails: the start, the migration, or the attachment of a device.
    #[default]
    Fail,
    /// It goes on as if the hook had not been called.
    Ignore,
    /// The hook runs and is recorded; its result is never used.
    DryRun,
}
