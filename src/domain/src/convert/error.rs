//! Why a VMI cannot be converted.

/// Why a VMI cannot be converted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConvertError {
    /// A field is not supported.
    #[error("{field} is not supported by this launcher yet")]
    Unsupported {
        /// Path of the field.
        field: String,
    },
    /// A field has a value that is not supported.
    #[error("{field} is {value:?}; it can be {allowed}")]
    Value {
        /// Path of the field.
        field: String,
        /// The value.
        value: String,
        /// The supported values.
        allowed: &'static str,
    },
    /// The VMI contradicts itself or the node. The message is KubeVirt's if KubeVirt has one.
    #[error("{0}")]
    Refused(String),
}

impl ConvertError {
    pub(crate) fn unsupported(field: impl Into<String>) -> Self {
        Self::Unsupported {
            field: field.into(),
        }
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::Refused(message.into())
    }
}
