//! The hook points, with KubeVirt's names where KubeVirt has them.

use std::fmt;

use crate::invocation::Reason;

/// A point in a virtual machine's life at which hooks run. `Display` prints its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookPoint {
    /// Before anything is prepared for the start; a veto ends the start. Not in KubeVirt's contract.
    PreStart,
    /// Before the cloud-init image is written.
    PreCloudInitIso,
    /// Before the domain is defined.
    OnDefineDomain,
    /// Before a device is attached to the running virtual machine. Not in KubeVirt's contract.
    OnAttachDevice,
    /// Before the virtual machine migrates to another node. Not in KubeVirt's contract.
    PreMigrationSource,
    /// Before the launcher exits.
    Shutdown,
}

impl HookPoint {
    /// All hook points, in the order of a VM's life.
    pub const ALL: [Self; 6] = [
        Self::PreStart,
        Self::PreCloudInitIso,
        Self::OnDefineDomain,
        Self::OnAttachDevice,
        Self::PreMigrationSource,
        Self::Shutdown,
    ];

    /// The hook points at which a module is called that implements a plugin.
    pub const PLUGIN_MODULE_POINTS: [Self; 2] = [Self::PreStart, Self::OnDefineDomain];

    /// The name in descriptions and policies, and in KubeVirt where KubeVirt has the hook point.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PreStart => "PreStart",
            Self::PreCloudInitIso => "PreCloudInitIso",
            Self::OnDefineDomain => "OnDefineDomain",
            Self::OnAttachDevice => "OnAttachDevice",
            Self::PreMigrationSource => "PreMigrationSource",
            Self::Shutdown => "Shutdown",
        }
    }

    /// The reason of every call at this hook point; `None` for hook points that are called both at a boot and for a
    /// migration that arrives.
    #[must_use]
    pub fn reason(self) -> Option<Reason> {
        match self {
            Self::PreStart | Self::PreCloudInitIso | Self::OnDefineDomain => None,
            Self::OnAttachDevice => Some(Reason::Hotplug),
            Self::PreMigrationSource => Some(Reason::MigrationSource),
            Self::Shutdown => Some(Reason::Shutdown),
        }
    }

    /// All names, for messages: `PreStart, PreCloudInitIso, ...`.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// The hook point with this name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.name() == name)
    }
}

impl fmt::Display for HookPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
