//! The failure policy of a hook: whether a failure stops the start of the virtual machine.

use serde::Deserialize;

/// What happens to the virtual machine if a hook vetoes, fails, crashes, takes too long, returns an invalid result, or
/// makes a change that is not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum FailurePolicy {
    /// The virtual machine does not start.
    #[default]
    Fail,
    /// The virtual machine starts as if the hook had not been called.
    Ignore,
    /// The hook runs and is recorded; its result is never used.
    DryRun,
}
