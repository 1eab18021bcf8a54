//! A hook that is ready to be called.

use std::fmt;
use std::time::Duration;

use crate::description::priority_at;
use crate::hook_body::HookBody;
use crate::policy::EffectiveSettings;
use crate::{HookIdentity, HookPoint, Subscription};

/// A hook that is ready to be called.
pub(crate) struct Hook {
    pub(crate) info: HookInfo,
    pub(crate) settings: EffectiveSettings,
    pub(crate) body: Box<dyn HookBody>,
}

/// The kind of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookKind {
    /// A WASM component.
    Wasm {
        /// The sha256 of the module in hexadecimal.
        digest: String,
    },
    /// A gRPC sidecar.
    Sidecar {
        /// The protocol version (`v1alpha3`).
        version: String,
    },
}

impl fmt::Display for HookKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wasm { digest } => write!(f, "wasm sha256:{digest}"),
            Self::Sidecar { version } => write!(f, "sidecar {version}"),
        }
    }
}

/// A collected hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookInfo {
    /// The name in runs and errors: its directory, and its file if there are several.
    pub hook: String,
    /// The name in its description or Info.
    pub name: String,
    /// The version in its description; may be empty.
    pub version: String,
    /// Its directory below the hooks directory.
    pub directory: String,
    /// Its socket or module in that directory.
    pub file: String,
    /// The kind.
    pub kind: HookKind,
    /// The hook points at which it is called.
    pub hook_points: Vec<Subscription>,
    /// The duration of the module's compilation, if this process compiled it: not for a sidecar, a precompiled module or
    /// one that was compiled before.
    pub compile_time: Option<Duration>,
    /// Time from the start of the collection until the hook was ready.
    pub ready_after: Duration,
}

impl HookInfo {
    /// Name, version and digest.
    #[must_use]
    pub fn identity(&self) -> HookIdentity {
        HookIdentity {
            name: self.name.clone(),
            version: self.version.clone(),
            digest: match &self.kind {
                HookKind::Wasm { digest } => digest.clone(),
                HookKind::Sidecar { .. } => String::new(),
            },
        }
    }

    /// The priority at a hook point, if the hook is called there.
    #[must_use]
    pub fn priority(&self, point: HookPoint) -> Option<i32> {
        priority_at(&self.hook_points, point)
    }
}
