//! What a hook is called for.

use std::fmt;

/// A moment in a virtual machine's life at which hooks run. `Display` gives KubeVirt's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookPoint {
    /// Before anything is prepared; a veto ends the start. This project's own.
    PreStart,
    /// Before the cloud-init image is written.
    PreCloudInitIso,
    /// Before the domain is defined.
    OnDefineDomain,
    /// When the launcher ends.
    Shutdown,
}

impl HookPoint {
    /// All of them, in the order of a life.
    pub const ALL: [Self; 4] = [
        Self::PreStart,
        Self::PreCloudInitIso,
        Self::OnDefineDomain,
        Self::Shutdown,
    ];

    /// KubeVirt's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PreStart => "PreStart",
            Self::PreCloudInitIso => "PreCloudInitIso",
            Self::OnDefineDomain => "OnDefineDomain",
            Self::Shutdown => "Shutdown",
        }
    }

    /// The hook point of that name, if there is one.
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

/// Why the chain runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reason {
    /// The virtual machine starts here.
    #[default]
    Boot,
    /// It arrives from another node.
    MigrationTarget,
    /// The launcher ends.
    Shutdown,
}

impl Reason {
    /// The word that hooks are given.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Boot => "boot",
            Self::MigrationTarget => "migration-target",
            Self::Shutdown => "shutdown",
        }
    }
}

/// Whose hooks run, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Invocation {
    /// Why.
    pub reason: Reason,
    /// The virtual machine's namespace.
    pub namespace: String,
    /// The virtual machine's name.
    pub name: String,
    /// The virtual machine's uid.
    pub uid: String,
    /// libvirt's name of it.
    pub domain: String,
}

/// Cloud-init data on its way through the hooks. KubeVirt's JSON is the whole truth: gRPC sidecars
/// are given it as it is, WASM hooks see its user-data, network-data and meta-data as documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudInitDocuments {
    /// `noCloud` or `configDrive`.
    pub data_source: String,
    /// KubeVirt's `CloudInitData`: `DataSource`, `NoCloudMetaData`, `ConfigDriveMetaData`,
    /// `UserData`, `NetworkData`, `DevicesData`, `VolumeName`.
    pub cloud_init_data_json: String,
}
