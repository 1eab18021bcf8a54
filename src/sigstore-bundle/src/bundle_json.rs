//! The JSON of a bundle: the members that verification reads, and those that mark unsupported kinds.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::error::BundleError;

pub(crate) const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// Another spelling of the same version.
const OTHER_MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle+json;version=0.3";
/// The maximum length of a bundle's text in an error, in characters.
const MAX_QUOTED: usize = 100;
const SHA256_BYTES: usize = 32;
/// The maximum length of a key's hint in bytes.
const MAX_HINT: usize = 256;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BundleJson {
    media_type: Option<String>,
    #[serde(default)]
    verification_material: VerificationMaterial,
    message_signature: Option<MessageSignature>,
    dsse_envelope: Option<Json>,
    /// A member of cosign's old format, which preceded Sigstore's.
    base64_signature: Option<Json>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VerificationMaterial {
    public_key: Option<KeyHint>,
    certificate: Option<Json>,
    x509_certificate_chain: Option<Json>,
}

#[derive(Debug, Deserialize)]
struct KeyHint {
    #[serde(default)]
    hint: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageSignature {
    message_digest: Option<MessageDigest>,
    #[serde(default)]
    signature: String,
}

#[derive(Debug, Deserialize)]
struct MessageDigest {
    #[serde(default)]
    algorithm: Json,
    #[serde(default)]
    digest: String,
}

/// The decoded members of a supported bundle.
pub(crate) struct BundleParts {
    pub(crate) signature: Vec<u8>,
    pub(crate) digest: Option<Vec<u8>>,
    pub(crate) hint: String,
}

impl BundleJson {
    pub(crate) fn into_parts(self) -> Result<BundleParts, BundleError> {
        match self.media_type.as_deref() {
            Some(MEDIA_TYPE | OTHER_MEDIA_TYPE) => {}
            Some(other) => {
                return unsupported(format!(
                    "of the type {}, and only {MEDIA_TYPE} is supported: sign again, with a \
                     current tool",
                    quote(other)
                ));
            }
            None if self.base64_signature.is_some() => {
                return unsupported(
                    "of cosign's old format: sign with --new-bundle-format, or with cosign 3",
                );
            }
            None => return malformed("it has no mediaType"),
        }
        let material = self.verification_material;
        if material.certificate.is_some() || material.x509_certificate_chain.is_some() {
            return unsupported(
                "signed with a certificate (keyless), which needs a network to verify: sign with \
                 a key",
            );
        }
        if self.dsse_envelope.is_some() {
            return unsupported("an attestation (DSSE): sign the file itself, as a blob");
        }
        let Some(signature) = self.message_signature else {
            return malformed("it has no messageSignature");
        };
        let Some(key) = material.public_key else {
            return malformed("it has no publicKey");
        };
        if key.hint.len() > MAX_HINT {
            return malformed("the hint of its publicKey is too long");
        }
        Ok(BundleParts {
            digest: signature.message_digest.map(decode_sha256).transpose()?,
            signature: decode_base64("signature", &signature.signature)?,
            hint: key.hint,
        })
    }
}

/// The bytes of a SHA-256 digest. Protobuf's JSON writes an enumeration as its name or its number.
fn decode_sha256(digest: MessageDigest) -> Result<Vec<u8>, BundleError> {
    if digest.algorithm != "SHA2_256" && digest.algorithm != 1 {
        return unsupported(format!(
            "over the digest {}, and only SHA2_256 is supported",
            quote(&digest.algorithm.to_string())
        ));
    }
    let bytes = decode_base64("digest", &digest.digest)?;
    if bytes.len() != SHA256_BYTES {
        return malformed("its digest has another length than a SHA-256");
    }
    Ok(bytes)
}

fn decode_base64(member: &str, text: &str) -> Result<Vec<u8>, BundleError> {
    let decoded = STANDARD.decode(text).ok().filter(|bytes| !bytes.is_empty());
    decoded.ok_or_else(|| BundleError::Malformed(format!("its {member} is not Base64")))
}

fn malformed<T>(reason: &str) -> Result<T, BundleError> {
    Err(BundleError::Malformed(reason.to_owned()))
}

fn unsupported<T>(description: impl Into<String>) -> Result<T, BundleError> {
    Err(BundleError::Unsupported(description.into()))
}

/// A bundle's text for an error: escaped, and cut to [`MAX_QUOTED`] characters.
fn quote(text: &str) -> String {
    let start: String = text.chars().take(MAX_QUOTED).collect();
    format!("{start:?}")
}
