//! A domain's XML.

use crate::error::Result;

/// What libvirt keeps about the domain.
pub trait Definition {
    /// The domain's XML.
    fn xml(&self, kind: XmlKind) -> Result<String>;

    /// Forgets the persistent definition; a running domain lives on as a transient one.
    fn undefine(&self, what: UndefineOptions) -> Result<()>;
}

/// Which XML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XmlKind {
    /// With run-time details, when the domain runs.
    Active,
    /// As it will be at the next start.
    Inactive,
    /// Fit to be sent to another host.
    Migratable,
}

/// What becomes of the files that belong to a definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UndefineOptions {
    /// UEFI variables.
    pub nvram: FilePolicy,
    /// TPM state.
    pub tpm: FilePolicy,
}

impl UndefineOptions {
    /// Nothing is removed: what KubeVirt does, since the files live on a volume of their own.
    pub const KEEP: UndefineOptions = UndefineOptions {
        nvram: FilePolicy::Keep,
        tpm: FilePolicy::AsDefined,
    };
}

/// Keep, or as the definition says (libvirt refuses to guess for UEFI variables).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilePolicy {
    /// As the definition says.
    #[default]
    AsDefined,
    /// Keep them.
    Keep,
}
