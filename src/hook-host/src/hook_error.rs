//! Errors of calling hooks at a hook point.

use std::time::Duration;

use crate::HookPoint;

/// The error of one hook at a hook point: a veto, a failure of the hook, or an error of the host or the policy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HookError {
    /// The hook vetoed.
    #[error("hook {hook} refuses at {point}: {message}")]
    Veto {
        /// The hook.
        hook: String,
        /// The hook point.
        point: HookPoint,
        /// The hook's message to the owner of the virtual machine.
        message: String,
    },
    /// The hook reported a failure.
    #[error("hook {hook} failed at {point}: {message}")]
    Failed {
        /// The hook.
        hook: String,
        /// The hook point.
        point: HookPoint,
        /// The hook's message.
        message: String,
    },
    /// The hook trapped or exceeded its memory limit.
    #[error("hook {hook} crashed at {point}: {message}")]
    Trap {
        /// The hook.
        hook: String,
        /// The hook point.
        point: HookPoint,
        /// The cause of the trap, and the panic message if the hook wrote one.
        message: String,
    },
    /// The hook exceeded its deadline.
    #[error("hook {hook} did not answer {point} within {limit:?}")]
    Deadline {
        /// The hook.
        hook: String,
        /// The hook point.
        point: HookPoint,
        /// The deadline of the call.
        limit: Duration,
    },
    /// The hook's output is invalid.
    #[error("hook {hook} gave back at {point} what cannot be used: {message}")]
    BadOutput {
        /// The hook.
        hook: String,
        /// The hook point.
        point: HookPoint,
        /// What is invalid.
        message: String,
    },
    /// The input for hooks is invalid; no hook ran.
    #[error("hook {hook} was not called at {point}: {message}")]
    BadInput {
        /// The first hook that would have run.
        hook: String,
        /// The hook point.
        point: HookPoint,
        /// What is invalid.
        message: String,
    },
    /// All hooks together exceeded the chain's deadline; this hook was running or next.
    #[error("all hooks together took longer than {limit:?} at {point}; hook {hook} was not done")]
    ChainDeadline {
        /// The hook that was running or next.
        hook: String,
        /// The hook point.
        point: HookPoint,
        /// The chain's deadline.
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
        /// The hook point.
        point: HookPoint,
        /// The path of the change.
        path: String,
        /// The value before the call; `None` if the path did not exist.
        before: Option<String>,
        /// The value that the hook set; `None` if the hook removed the path.
        after: Option<String>,
        /// The line of the description or of the policy that would allow the change.
        remedy: String,
    },
    /// A plugin's hook cannot be called: for instance, its kind is not supported, or its socket is outside the plugin's
    /// directory.
    #[error("hook {hook} cannot be called at {point}: {reason}")]
    Unusable {
        /// The hook.
        hook: String,
        /// The hook point.
        point: HookPoint,
        /// The reason, and what would make the hook callable.
        reason: String,
    },
    /// The operator's policy forbids the hook.
    #[error("hook {hook} may not be called at {point}: {reason}")]
    Forbidden {
        /// The hook.
        hook: String,
        /// The hook point.
        point: HookPoint,
        /// File, line and column of the rule in the operator's policy, and the rule.
        reason: String,
    },
    /// A gRPC sidecar could not be reached, or answered with an error.
    #[error("hook sidecar {hook} failed at {point} ({version}): {message}")]
    Sidecar {
        /// The hook.
        hook: String,
        /// The hook point.
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

    /// Whether the deadline of all hooks together expired: the hook may have more time in another attempt. `false` for
    /// a hook that exceeded its own deadline.
    #[must_use]
    pub fn is_chain_deadline(&self) -> bool {
        matches!(self, Self::ChainDeadline { .. })
    }

    /// The kind of the error as one word, for logs and metrics.
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

/// Maximum length of a value in an error text, in characters.
const MAX_VALUE_CHARS: usize = 200;

fn quoted(value: Option<&str>) -> String {
    let Some(text) = value else {
        return "nothing".to_owned();
    };
    let start: String = text.chars().take(MAX_VALUE_CHARS).collect();
    let more = if start.len() < text.len() { " ..." } else { "" };
    format!("{start:?}{more}")
}
