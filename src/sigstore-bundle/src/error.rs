//! Errors of bundles, keys and signature verification.

/// The maximum size of a bundle in bytes. A bundle with log entries has about 10 KiB.
pub const MAX_BUNDLE: usize = 64 << 10;
/// The maximum size of a PEM file in bytes. A P-256 key has less than 1 KiB.
pub(crate) const MAX_PEM: usize = 16 << 10;
/// The name of the only supported type of key.
pub(crate) const P256: &str = "ECDSA P-256";

/// Why a bundle cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// The bundle is larger than [`MAX_BUNDLE`].
    #[error("it has more than the {MAX_BUNDLE} bytes that a bundle may have")]
    TooLarge,
    /// The bundle is not JSON, is truncated, or has an invalid or missing member.
    #[error("it is not a Sigstore bundle, or is truncated: {0}")]
    Malformed(String),
    /// The bundle is of a kind that is not supported.
    #[error("it is {0}")]
    Unsupported(String),
}

/// Why the verification of a signature failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The bundle belongs to another file, or the file was changed.
    #[error("it is the signature of a file with the sha256 {signed}, and this one has {found}")]
    OtherFile {
        /// The digest that the bundle states.
        signed: String,
        /// The digest of the file.
        found: String,
    },
    /// Another key made the signature, or the signature was changed.
    #[error("the key {key} did not make it{}", hint_suffix(.hint))]
    OtherKey {
        /// The hint of the key that the signature was verified with.
        key: String,
        /// The hint of the bundle.
        hint: String,
    },
    /// None of several keys made the signature, or the signature was changed.
    #[error("none of the {keys} keys made it{}", hint_suffix(.hint))]
    OtherKeys {
        /// The number of keys that the signature was verified with.
        keys: usize,
        /// The hint of the bundle.
        hint: String,
    },
    /// No key was given to verify the signature with.
    #[error("no key was given")]
    NoKey,
}

fn hint_suffix(hint: &str) -> String {
    match hint.is_empty() {
        true => String::new(),
        false => format!(" (its hint names the key {hint:?})"),
    }
}

/// Why a key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The file has more than 16 KiB.
    #[error("it has more than the {MAX_PEM} bytes that a key may have")]
    TooLarge,
    /// The file has no PEM section.
    #[error("it is not a key in PEM: -----BEGIN {wanted}----- is missing")]
    NoPem {
        /// The expected label of the section.
        wanted: &'static str,
    },
    /// The file has more than one PEM section.
    #[error("it has several PEM sections; one key is wanted")]
    Several,
    /// The PEM section has another label than expected.
    #[error("it is {found:?}, and {wanted:?} is wanted: {remedy}")]
    OtherSection {
        /// The label of the section.
        found: String,
        /// The expected label of the section.
        wanted: &'static str,
        /// How to get the expected key.
        remedy: &'static str,
    },
    /// The PEM section is incomplete, or not Base64.
    #[error("it is damaged: its PEM section cannot be decoded")]
    Damaged,
    /// The key is of another type than P-256.
    #[error("it is a key of the type {found}, and only {P256} is supported")]
    OtherType {
        /// The type of the key.
        found: &'static str,
    },
    /// The key is a P-256 key, but invalid.
    #[error("it is not a valid {P256} key{0}")]
    Invalid(&'static str),
    /// The system gave no random numbers.
    #[error("the system gives no random numbers to sign with")]
    NoRandomNumbers,
}
