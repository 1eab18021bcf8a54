//! A domain's definition: its XML, and the removal of it.

use crate::error::Result;

/// The domain's XML and its persistent definition.
pub trait Definition {
    /// The domain's XML.
    fn xml(&self, kind: XmlKind) -> Result<String>;

    /// Removes the persistent definition. A running domain continues as a transient one.
    fn undefine(&self, options: UndefineOptions) -> Result<()>;
}

/// The kinds of a domain's XML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XmlKind {
    /// The running configuration with run-time details; the persistent one if the domain does not run.
    Active,
    /// The configuration of the next start.
    Inactive,
    /// The configuration without details of this host, for a migration.
    Migratable,
}

/// What an undefinition does with the files that belong to the definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UndefineOptions {
    /// UEFI variables.
    pub nvram: FilePolicy,
    /// TPM state.
    pub tpm: FilePolicy,
}

impl UndefineOptions {
    /// Keeps all files, as KubeVirt does: they are on a volume of their own.
    pub const KEEP: UndefineOptions = UndefineOptions {
        nvram: FilePolicy::Keep,
        tpm: FilePolicy::AsDefined,
    };
}

/// What an undefinition does with a file. For UEFI variables libvirt refuses [`FilePolicy::AsDefined`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilePolicy {
    /// Keep or remove the file, as the definition says.
    #[default]
    AsDefined,
    /// Keep the file.
    Keep,
}
