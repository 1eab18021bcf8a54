//! Errors of the conversion of a VMI.

/// Why a VMI cannot be converted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConvertError {
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
    /// The VMI is inconsistent, or needs something that the node or the pod does not have. The message is KubeVirt's if
    /// KubeVirt has one.
    #[error("{0}")]
    Invalid(String),
}

impl ConvertError {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }
}
