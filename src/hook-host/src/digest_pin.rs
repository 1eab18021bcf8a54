//! The sha256 of a module.

/// The digest that a module must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestPin {
    /// In lower-case hexadecimal.
    pub sha256: String,
    /// File, line and column of the pin, for errors.
    pub place: String,
}
