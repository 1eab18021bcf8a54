//! The reason for which a domain is made, as the command line and test cases name it.

use clap::ValueEnum;
use hook_host::Reason;
use serde::Deserialize;

/// A [`Reason`] for which a domain is made. Hook points other than those of a boot have a reason of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DomainReason {
    /// The virtual machine starts here
    #[default]
    Boot,
    /// The virtual machine arrives from another node
    MigrationTarget,
}

impl From<DomainReason> for Reason {
    fn from(reason: DomainReason) -> Self {
        match reason {
            DomainReason::Boot => Self::Boot,
            DomainReason::MigrationTarget => Self::MigrationTarget,
        }
    }
}
