//! The digest that a `hook.yaml` pins its module to.

/// The digest that a module must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestPin {
    /// The sha256 in lower-case hexadecimal.
    pub sha256: String,
    /// File, line and column of the pin, for errors.
    pub place: String,
}
