//! Why a hook point failed.

use std::time::Duration;

use crate::HookPoint;

/// Why a hook failed. A veto is not a crash.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HookError {
    /// The hook vetoes.
    #[error("hook {hook} refuses at {point}: {message}")]
    Veto {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// Its words to the virtual machine's owner.
        message: String,
    },
    /// The hook reports a failure.
    #[error("hook {hook} failed at {point}: {message}")]
    Failed {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// The hook's message.
        message: String,
    },
    /// The hook trapped or exceeded its memory limit.
    #[error("hook {hook} crashed at {point}: {message}")]
    Trap {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// What happened, with the panic message if there was one.
        message: String,
    },
    /// The hook exceeded its deadline.
    #[error("hook {hook} did not answer {point} within {limit:?}")]
    Deadline {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// What it had.
        limit: Duration,
    },
    /// The hook's output is invalid.
    #[error("hook {hook} gave back at {point} what cannot be used: {message}")]
    BadOutput {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// What is wrong with it.
        message: String,
    },
    /// The input for hooks is invalid; no hook ran.
    #[error("hook {hook} was not called at {point}: {message}")]
    BadInput {
        /// The first hook that would have run.
        hook: String,
        /// Where.
        point: HookPoint,
        /// What is wrong with it.
        message: String,
    },
    /// All hooks together exceeded the chain's deadline; this hook was running or next.
    #[error("all hooks together took longer than {limit:?} at {point}; hook {hook} was not done")]
    ChainDeadline {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// What the chain had.
        limit: Duration,
    },
    /// The hook made a change that is not granted; none of its changes were kept.
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
        /// The line that would allow the change.
        remedy: String,
    },
    /// A plugin's hook is of an unsupported kind, or its socket is not allowed.
    #[error("hook {hook} cannot be called at {point}: {reason}")]
    Unusable {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// The reason and the remedy.
        reason: String,
    },
    /// The operator's policy forbids the hook.
    #[error("hook {hook} may not be called at {point}: {reason}")]
    Forbidden {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// The policy's file, line and column, and its rule.
        reason: String,
    },
    /// A gRPC sidecar could not be reached, or answered with an error.
    #[error("hook sidecar {hook} failed at {point} ({version}): {message}")]
    Sidecar {
        /// The hook.
        hook: String,
        /// Where.
        point: HookPoint,
        /// The protocol version.
        version: String,
        /// The gRPC status or the connection error.
        message: String,
    },
}

impl HookError {
    /// The hook that failed.
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

    /// Whether the hook vetoed rather than failed.
    #[must_use]
    pub fn is_veto(&self) -> bool {
        matches!(self, Self::Veto { .. })
    }

    /// Whether the time of all hooks together ran out: another attempt may leave this hook more. A hook that exceeds its
    /// own deadline has failed.
    #[must_use]
    pub fn is_late(&self) -> bool {
        matches!(self, Self::ChainDeadline { .. })
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

    /// The reason of a Kubernetes event about the error: `HookDenied` for a veto of the hook or of
    /// the policy, else `HookFailed`.
    #[must_use]
    pub fn event_reason(&self) -> &'static str {
        match self {
            Self::Veto { .. } | Self::Denied { .. } | Self::Forbidden { .. } => "HookDenied",
            _ => "HookFailed",
        }
    }
}

/// The most characters of a value in an error.
const MAX_VALUE: usize = 200;

fn quoted(value: Option<&str>) -> String {
    let Some(text) = value else {
        return "nothing".to_owned();
    };
    let start: String = text.chars().take(MAX_VALUE).collect();
    let more = if start.len() < text.len() { " ..." } else { "" };
    format!("{start:?}{more}")
}
