//! The context of a call: the virtual machine, and the reason for which its hooks are called.

/// The reason for which hooks are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reason {
    /// The virtual machine starts here.
    #[default]
    Boot,
    /// The virtual machine migrates here from another node.
    MigrationTarget,
    /// A device is attached to the running virtual machine.
    Hotplug,
    /// The virtual machine migrates to another node.
    MigrationSource,
    /// The launcher is about to exit.
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

/// The virtual machine whose hooks are called, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Invocation {
    /// The reason of the call.
    pub reason: Reason,
    /// The virtual machine's namespace.
    pub namespace: String,
    /// The virtual machine's name.
    pub name: String,
    /// The virtual machine's uid.
    pub uid: String,
    /// The name of the domain in libvirt.
    pub domain: String,
}
