//! Hook points, and for which virtual machine and reason hooks are called.

use std::fmt;

/// A point in a virtual machine's life at which hooks run. `Display` prints KubeVirt's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookPoint {
    /// Before anything is prepared; a veto ends the start. Not in KubeVirt's contract.
    PreStart,
    /// Before the cloud-init image is written.
    PreCloudInitIso,
    /// Before the domain is defined.
    OnDefineDomain,
    /// Before a device is attached to the running virtual machine. Not in KubeVirt's contract.
    OnAttachDevice,
    /// Before the virtual machine migrates to another node. Not in KubeVirt's contract.
    PreMigrationSource,
    /// When the launcher ends.
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

    /// What a Plugin whose sidecar is a module calls of it.
    pub const OF_PLUGIN_MODULES: [Self; 2] = [Self::PreStart, Self::OnDefineDomain];

    /// KubeVirt's name.
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

    /// The reason of every call at this hook point; `None` if the virtual machine may boot or arrive by a migration.
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

/// Why hooks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reason {
    /// The virtual machine starts here.
    #[default]
    Boot,
    /// It migrates here from another node.
    MigrationTarget,
    /// It runs, and a device is attached.
    Hotplug,
    /// It migrates to another node.
    MigrationSource,
    /// The launcher ends.
    Shutdown,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::Boot,
        Self::MigrationTarget,
        Self::Hotplug,
        Self::MigrationSource,
        Self::Shutdown,
    ];

    /// The text that hooks read.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Boot => "boot",
            Self::MigrationTarget => "migration-target",
            Self::Hotplug => "hotplug",
            Self::MigrationSource => "migration-source",
            Self::Shutdown => "shutdown",
        }
    }
}

/// The virtual machine whose hooks run, and why.
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
    /// libvirt's name of the domain.
    pub domain: String,
}

/// Cloud-init data that is passed through the hooks. KubeVirt's JSON is authoritative: gRPC sidecars
/// get it unchanged, WASM hooks get its user-data, network-data and meta-data as documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudInitDocuments {
    /// `noCloud` or `configDrive`.
    pub data_source: String,
    /// KubeVirt's `CloudInitData`: `DataSource`, `NoCloudMetaData`, `ConfigDriveMetaData`,
    /// `UserData`, `NetworkData`, `DevicesData`, `VolumeName`.
    pub cloud_init_data_json: String,
}
