//! For which virtual machine, and for which reason, hooks are called.

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
