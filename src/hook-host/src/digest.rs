//! The sha256 of a module.

/// The digest that a module must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestPin {
    /// In lower-case hexadecimal.
    pub sha256: String,
    /// File, line and column of the pin, for errors.
    pub place: String,
}

/// Bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
