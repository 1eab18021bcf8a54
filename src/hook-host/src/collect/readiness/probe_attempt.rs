//! A probe of one hook, and its outcome.

use crate::collect::hook_file::{FileStamp, HookFileKind, HookId};

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::collect) enum ProbeOutcome {
    /// The hook is ready.
    Ready,
    /// The hook is not available yet. It is probed again.
    NotReady(String),
    /// The hook cannot be used unless its files change.
    Flawed(String),
}

/// A probe to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::collect) struct ProbeAttempt {
    pub(in crate::collect) id: HookId,
    pub(in crate::collect) kind: HookFileKind,
    pub(in crate::collect) stamp: FileStamp,
}
