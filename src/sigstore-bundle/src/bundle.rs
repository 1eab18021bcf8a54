//! A bundle: parse, render, sign, verify.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};

use crate::bundle_json::{BundleJson, MEDIA_TYPE};
use crate::key::hex;
use crate::{KeyError, PublicKey, SigningKey};

/// The largest bundle in bytes. One with log entries has about 10 KiB.
pub const MAX_BUNDLE: usize = 64 << 10;

/// The signature of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// ASN.1 DER.
    pub(crate) signature: Vec<u8>,
    /// The sha256 that the bundle states; the signature says which is right.
    pub(crate) digest: Option<Vec<u8>>,
    /// What the signer says of the key.
    pub(crate) hint: String,
}

/// Why a bundle cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// It is longer than bundles are.
    #[error("it has more than the {MAX_BUNDLE} bytes that a bundle may have")]
    TooLarge,
    /// It is no JSON, or ends too early.
    #[error("it is no Sigstore bundle, or is truncated: {0}")]
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
}

fn hinted(hint: &str) -> String {
    match hint.is_empty() {
        true => String::new(),
        false => format!(" (its hint names the key {hint:?})"),
    }
}

impl Bundle {
    /// Reads a bundle. Unknown members, log entries and timestamps are ignored.
    pub fn parse(text: &str) -> Result<Self, BundleError> {
        if text.len() > MAX_BUNDLE {
            return Err(BundleError::TooLarge);
        }
        let json: BundleJson = serde_json::from_str(text)
            .map_err(|error| BundleError::Malformed(error.to_string()))?;
        json.bundle()
    }

    /// Signs a file.
    pub fn sign(content: &[u8], key: &SigningKey) -> Result<Self, KeyError> {
        Ok(Self {
            signature: key.sign(content)?,
            digest: Some(digest(&SHA256, content).as_ref().to_vec()),
            hint: key.public_key().id().hint(),
        })
    }

    /// The bundle as JSON.
    #[must_use]
    pub fn render(&self) -> String {
        let mut signature = serde_json::json!({"signature": STANDARD.encode(&self.signature)});
        if let Some(digest) = &self.digest {
            signature["messageDigest"] =
                serde_json::json!({"algorithm": "SHA2_256", "digest": STANDARD.encode(digest)});
        }
        let bundle = serde_json::json!({
            "mediaType": MEDIA_TYPE,
            "verificationMaterial": {"publicKey": {"hint": self.hint}},
            "messageSignature": signature,
        });
        format!("{bundle}\n")
    }

    /// The sha256 of the signed file in lower-case hexadecimal, if the bundle states it.
    #[must_use]
    pub fn sha256(&self) -> Option<String> {
        self.digest.as_deref().map(hex)
    }

    /// What the signer says of the key: the sha256 of the public key in Base64, from current tools.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// Whether the file is the one that is signed, as far as the bundle states a digest.
    pub fn is_for(&self, content: &[u8]) -> Result<(), VerifyError> {
        let found = digest(&SHA256, content);
        match &self.digest {
            Some(signed) if signed != found.as_ref() => Err(VerifyError::OtherFile {
                signed: hex(signed),
                found: hex(found.as_ref()),
            }),
            _ => Ok(()),
        }
    }

    /// Whether `key` signed the file.
    pub fn verify(&self, content: &[u8], key: &PublicKey) -> Result<(), VerifyError> {
        self.is_for(content)?;
        if key.has_signed(content, &self.signature) {
            return Ok(());
        }
        Err(VerifyError::OtherKey {
            key: key.id().hint(),
            hint: self.hint.clone(),
        })
    }
}
