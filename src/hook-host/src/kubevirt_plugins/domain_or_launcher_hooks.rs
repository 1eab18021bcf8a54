//! The two lists of hooks in a Plugin: `domainHooks` of KubeVirt v1.9, and `launcherHooks` of v1.10.

/// The list in the Plugin that contains a hook. It decides which gRPC service the hook's sidecar serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HookList {
    /// v1.9: the sidecar serves `DomainHookService`.
    DomainHooks,
    /// v1.10: the sidecar serves `LauncherHookService`.
    LauncherHooks,
}

impl HookList {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::DomainHooks => "domainHooks",
            Self::LauncherHooks => "launcherHooks",
        }
    }
}
