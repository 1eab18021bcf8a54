//! Why a chain stopped.

use std::time::Duration;

use crate::HookPoint;

/// A hook that did not do its work, and how. A hook's "no" and a hook's crash are different.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HookError {
    /// The hook says no.
    #[error("hook {hook} refuses at {point}: {message}")]
    Veto {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// Its words to the virtual machine's owner.
        message: String,
    },
    /// The hook could not do its work and says why.
    #[error("hook {hook} failed at {point}: {message}")]
    Failed {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// Its own words.
        message: String,
    },
    /// The hook crashed, or ran into its memory limit.
    #[error("hook {hook} crashed at {point}: {message}")]
    Trap {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// What happened, with the panic message if there was one.
        message: String,
    },
    /// The hook took too long.
    #[error("hook {hook} did not answer {point} within {limit:?}")]
    Deadline {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// What it had.
        limit: Duration,
    },
    /// What the hook gave back, or was to be given, cannot be used.
    #[error("hook {hook} gave back at {point} what cannot be used: {message}")]
    BadOutput {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// What is wrong with it.
        message: String,
    },
    /// What hooks were to be given cannot be used; no hook ran on it.
    #[error("hook {hook} was not called at {point}: {message}")]
    BadInput {
        /// The first hook that would have run.
        hook: String,
        /// Where.
        point: HookPoint,
        /// What is wrong with it.
        message: String,
    },
    /// All hooks together took too long; this one was running, or was next.
    #[error("all hooks together took longer than {limit:?} at {point}; hook {hook} was not done")]
    ChainDeadline {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// What the chain had.
        limit: Duration,
    },
    /// The hook changed what it may not change; nothing of the step was kept.
    #[error(
        "hook {hook} may not change {path} at {point} (before: {}, after: {}): {remedy}",
        quoted(before.as_deref()), quoted(after.as_deref())
    )]
    Denied {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// What it changed.
        path: String,
        /// What was there.
        before: Option<String>,
        /// What the hook put there.
        after: Option<String>,
        /// Which line would allow it.
        remedy: String,
    },
    /// A plugin's hook of a kind that cannot be called here, or at a place where it may not be.
    #[error("hook {hook} cannot be called at {point}: {reason}")]
    Unusable {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// What is in the way, and the way out.
        reason: String,
    },
    /// The operator's policy forbids the hook as such.
    #[error("hook {hook} may not be called at {point}: {reason}")]
    Forbidden {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// The policy's file, line and column, and what stands there.
        reason: String,
    },
    /// A gRPC sidecar could not be reached, or answered with an error.
    #[error("hook sidecar {hook} failed at {point} ({version}): {message}")]
    Sidecar {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// The version it is spoken to in.
        version: String,
        /// gRPC's words.
        message: String,
    },
}

impl HookError {
    /// The hook that did not do its work.
    #[must_use]
    pub fn hook(&self) -> &str {
        match self {
            Self::Veto { hook, .. }
            | Self::Failed { hook, .. }
            | Self::Trap { hook, .. }
            | Self::Deadline { hook, .. }
            | Self::BadOutput { hook, .. }
            | Self::BadInput { hook, .. }
            | Self::ChainDeadline { hook, .. }
            | Self::Denied { hook, .. }
            | Self::Unusable { hook, .. }
            | Self::Forbidden { hook, .. }
            | Self::Sidecar { hook, .. } => hook,
        }
    }

    /// Whether the hook says no, which is its right, rather than failed.
    #[must_use]
    pub fn is_veto(&self) -> bool {
        matches!(self, Self::Veto { .. })
    }

    /// One word for logs and metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Veto { .. } => "veto",
            Self::Failed { .. } => "failed",
            Self::Trap { .. } => "trap",
            Self::Deadline { .. } => "deadline",
            Self::BadOutput { .. } => "bad-output",
            Self::BadInput { .. } => "bad-input",
            Self::ChainDeadline { .. } => "chain-deadline",
            Self::Denied { .. } => "denied",
            Self::Unusable { .. } => "unusable",
            Self::Forbidden { .. } => "forbidden",
            Self::Sidecar { .. } => "sidecar",
        }
    }

    /// The reason of a Kubernetes event about it: `HookDenied` when somebody says no, the hook or
    /// the policy about it, else `HookFailed`.
    #[must_use]
    pub fn event_reason(&self) -> &'static str {
        match self {
            Self::Veto { .. } | Self::Denied { .. } | Self::Forbidden { .. } => "HookDenied",
            _ => "HookFailed",
        }
    }
}

/// Of a value, as much as an error can bear.
const MAX_VALUE: usize = 200;

fn quoted(value: Option<&str>) -> String {
    let Some(text) = value else {
        return "nothing".to_owned();
    };
    let start: String = text.chars().take(MAX_VALUE).collect();
    let more = if start.len() < text.len() { " ..." } else { "" };
    format!("{start:?}{more}")
}
