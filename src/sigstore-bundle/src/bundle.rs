//! A bundle: parses, renders, signs and verifies.

use std::borrow::Borrow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use data_encoding::HEXLOWER;
use ring::digest::{SHA256, digest};

use crate::bundle_json::{BundleJson, BundleParts, MEDIA_TYPE};
use crate::ecdsa_key::{PublicKey, SigningKey};
use crate::error::{BundleError, KeyError, MAX_BUNDLE, VerifyError};

/// The signature of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The ECDSA signature as ASN.1 DER.
    pub(crate) signature: Vec<u8>,
    /// The sha256 of the signed file as the bundle states it. Only the signature proves it.
    pub(crate) digest: Option<Vec<u8>>,
    /// The signer's hint at the key.
    pub(crate) hint: String,
}

impl Bundle {
    /// Parses a bundle. Unknown members, log entries and timestamps are ignored.
    pub fn parse(text: &str) -> Result<Self, BundleError> {
        if text.len() > MAX_BUNDLE {
            return Err(BundleError::TooLarge);
        }
        let json: BundleJson = serde_json::from_str(text)
            .map_err(|error| BundleError::Malformed(error.to_string()))?;
        let BundleParts {
            signature,
            digest,
            hint,
        } = json.into_parts()?;
        Ok(Self {
            signature,
            digest,
            hint,
        })
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
        self.digest.as_deref().map(|digest| HEXLOWER.encode(digest))
    }

    /// The signer's hint at the key: current tools write the sha256 of the public key in Base64.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// Checks the file against the digest that the bundle states, if it states one.
    pub fn is_for(&self, content: &[u8]) -> Result<(), VerifyError> {
        let found = digest(&SHA256, content);
        match &self.digest {
            Some(signed) if signed != found.as_ref() => Err(VerifyError::OtherFile {
                signed: HEXLOWER.encode(signed),
                found: HEXLOWER.encode(found.as_ref()),
            }),
            _ => Ok(()),
        }
    }

    /// The position of the first key in `keys` that signed the file.
    pub fn signer<K: Borrow<PublicKey>>(
        &self,
        content: &[u8],
        keys: &[K],
    ) -> Result<usize, VerifyError> {
        self.is_for(content)?;
        let has_signed = |key: &K| key.borrow().has_signed(content, &self.signature);
        let hint = || self.hint.clone();
        keys.iter().position(has_signed).ok_or_else(|| match keys {
            [] => VerifyError::NoKey,
            [key] => VerifyError::OtherKey {
                key: key.borrow().id().hint(),
                hint: hint(),
            },
            several => VerifyError::OtherKeys {
                keys: several.len(),
                hint: hint(),
            },
        })
    }

    /// Verifies that `key` signed the file.
    pub fn verify(&self, content: &[u8], key: &PublicKey) -> Result<(), VerifyError> {
        self.signer(content, &[key]).map(drop)
    }
}
