//! A hook that is ready to be called, and its public description (`HookInfo`).

use std::fmt;
use std::time::Duration;

use crate::hook_body::HookBody;
use crate::module_description::priority_at;
use crate::policy::EffectiveSettings;
use crate::{HookIdentity, HookPoint, Subscription};

/// A hook that is ready to be called.
pub(crate) struct Hook {
    pub(crate) info: HookInfo,
    pub(crate) settings: EffectiveSettings,
    pub(crate) body: Box<dyn HookBody>,
}

impl Hook {
    /// Whether the operator's policy makes it a final hook.
    pub(crate) fn is_final(&self) -> bool {
        self.settings.final_rule.is_some()
    }
}

/// What implements a hook: a module or a sidecar.
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

/// What is known about a hook that is ready to be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookInfo {
    /// The name in runs and errors: the hook's directory, and also its file if the directory contains several hooks.
    pub hook: String,
    /// The name from the module's description or the sidecar's Info.
    pub name: String,
    /// The version from the module's description; may be empty.
    pub version: String,
    /// The hook's directory below the hooks directory.
    pub directory: String,
    /// The file name of the socket or module in that directory.
    pub file: String,
    /// Module or sidecar.
    pub kind: HookKind,
    /// The hook points at which it is called.
    pub hook_points: Vec<Subscription>,
    /// The names of hook points that a plugin's hook lists and at which plugins are not called; empty for other hooks.
    pub uncalled_points: Vec<String>,
    /// Whether the operator's policy makes it a final hook: one that is called after all others, whose changes are sealed.
    pub is_final: bool,
    /// Duration of the module's compilation; `None` for a sidecar, a precompiled module, and a module whose code was
    /// already in the directory of compiled modules.
    pub compile_time: Option<Duration>,
    /// Time from the start of the collection until the hook was ready.
    pub ready_after: Duration,
}

impl HookInfo {
    /// Name and version of the hook, and the digest of its module.
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
