//! A domain's XML and metadata.

use crate::error::Result;

/// What libvirt keeps about the domain.
pub trait Definition {
    /// The domain's XML.
    fn xml(&self, kind: XmlKind) -> Result<String>;

    /// Forgets the persistent definition; a running domain lives on as a transient one.
    fn undefine(&self, what: UndefineOptions) -> Result<()>;

    /// The metadata element of a namespace, e.g. `http://kubevirt.io`; `None` when there is none.
    fn metadata(&self, uri: &str, of: Affect) -> Result<Option<String>>;

    /// Replaces the metadata element of a namespace; `xml: None` removes it.
    fn set_metadata(&self, metadata: Metadata<'_>, of: Affect) -> Result<()>;
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

/// Which of a domain's two configurations is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Affect {
    /// The running one if it runs, else the persistent one.
    #[default]
    Current,
    /// The running one.
    Live,
    /// The persistent one.
    Config,
    /// Both.
    LiveAndConfig,
}

/// A metadata element to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata<'a> {
    /// The element's namespace, e.g. `http://kubevirt.io`.
    pub uri: &'a str,
    /// The prefix libvirt gives to it, e.g. `kubevirt`.
    pub prefix: &'a str,
    /// The element without its namespace declaration; none removes it.
    pub xml: Option<&'a str>,
}
