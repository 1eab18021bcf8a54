//! Why a VMI is refused.

/// Why a VMI cannot be turned into a domain.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConvertError {
    /// The VMI asks for something that the domain would not have.
    #[error("{field} is not supported by this launcher yet")]
    Unsupported {
        /// Path of the field.
        field: String,
    },
    /// A field's value is none of those that can be had.
    #[error("{field} is {value:?}; it can be {allowed}")]
    Value {
        /// Path of the field.
        field: String,
        /// What it says.
        value: String,
        /// What it could say.
        allowed: &'static str,
    },
    /// The VMI contradicts itself or the node; the message is KubeVirt's where it has one.
    #[error("{0}")]
    Refused(String),
}

impl ConvertError {
    pub(super) fn unsupported(field: impl Into<String>) -> Self {
        Self::Unsupported {
            field: field.into(),
        }
    }

    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self::Refused(message.into())
    }
}
