//! From a VMI to a domain: one file per concern, each a function that adds its part.

use crate::host::HostFacts;
use crate::options::Options;
use crate::spec::DomainSpec;
use crate::vmi::Vmi;

/// Why a VMI cannot be turned into a domain.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConvertError {
    /// The VMI asks for something that the domain would not have.
    #[error("{field} is not supported by this launcher yet")]
    Unsupported {
        /// Path of the field.
        field: String,
    },
    /// The VMI contradicts itself or the node; the message is KubeVirt's where it has one.
    #[error("{0}")]
    Refused(String),
}

/// Converts a VMI.
///
/// # Errors
/// [`ConvertError`] when a field is not supported or the VMI cannot be run; nothing is silently left out.
pub fn convert(
    _vmi: &Vmi,
    _options: &Options,
    _host: &HostFacts,
) -> Result<DomainSpec, ConvertError> {
    Err(ConvertError::Unsupported {
        field: "spec".into(),
    })
}
