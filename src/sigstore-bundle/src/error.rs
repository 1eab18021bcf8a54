//! Why bundles and keys cannot be used, and why signatures do not hold.

/// The largest bundle in bytes. One with log entries has about 10 KiB.
pub const MAX_BUNDLE: usize = 64 << 10;
/// The largest PEM file in bytes; that of a P-256 key has less than 1 KiB.
pub(crate) const MAX_PEM: usize = 16 << 10;
/// The type of key that is supported.
pub(crate) const P256: &str = "ECDSA P-256";

/// Why a bundle cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// It is longer than bundles are.
    #[error("it has more than the {MAX_BUNDLE} bytes that a bundle may have")]
    TooLarge,
    /// It is not JSON, or ends too early.
    #[error("it is not a Sigstore bundle, or is truncated: {0}")]
    Malformed(String),
    /// It is a bundle of a kind that is not supported.
    #[error("it is {0}")]
    Unsupported(String),
}

/// Why a signature does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The bundle is that of another file, or the file was changed.
    #[error("it is the signature of a file with the sha256 {signed}, and this one has {found}")]
    OtherFile {
        /// The digest that the bundle states.
        signed: String,
        /// The digest of the file.
        found: String,
    },
    /// Another key signed, or the signature was changed.
    #[error("the key {key} did not make it{}", hinted(.hint))]
    OtherKey {
        /// The key that it was verified with.
        key: String,
        /// The hint of the bundle.
        hint: String,
    },
    /// None of several keys signed, or the signature was changed.
    #[error("none of the {keys} keys made it{}", hinted(.hint))]
    OtherKeys {
        /// The number of keys that it was verified with.
        keys: usize,
        /// The hint of the bundle.
        hint: String,
    },
    /// There is no key to verify it with.
    #[error("no key was given")]
    NoKey,
}

fn hinted(hint: &str) -> String {
    match hint.is_empty() {
        true => String::new(),
        false => format!(" (its hint names the key {hint:?})"),
    }
}

/// Why a key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The file is longer than keys are.
    #[error("it has more than the {MAX_PEM} bytes that a key may have")]
    TooLarge,
    /// There is no PEM section.
    #[error("it is not a key in PEM: -----BEGIN {wanted}----- is missing")]
    NoPem {
        /// The label of the section that is wanted.
        wanted: &'static str,
    },
    /// There is more than one PEM section.
    #[error("it has several PEM sections; one key is wanted")]
    Several,
    /// It is something else in PEM.
    #[error("it is {found:?}, and {wanted:?} is wanted: {remedy}")]
    OtherSection {
        /// What it is.
        found: String,
        /// The label of the section that is wanted.
        wanted: &'static str,
        /// The way out.
        remedy: &'static str,
    },
    /// The PEM section is incomplete, or not Base64.
    #[error("it is damaged: its PEM section cannot be decoded")]
    Damaged,
    /// It is a key of another type.
    #[error("it is a key of the type {found}, and only {P256} is supported")]
    OtherType {
        /// The type.
        found: &'static str,
    },
    /// The key is of the right type, and wrong.
    #[error("it is not a valid {P256} key{0}")]
    Invalid(&'static str),
    /// The system gave no random numbers.
    #[error("the system gives no random numbers to sign with")]
    NoRandomNumbers,
}
