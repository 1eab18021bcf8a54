//! ECDSA P-256 keys in PEM.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey,
};
use rustls_pki_types::pem::SectionKind;

use crate::error::{KeyError, P256};
use crate::pem_section::decode_only_section;

/// The bytes before the point in the SubjectPublicKeyInfo (RFC 5480) of an uncompressed P-256 key.
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// The size of an uncompressed point: the first byte and two coordinates of 32 bytes.
const POINT_BYTES: usize = 65;
/// The first byte of an uncompressed point.
const UNCOMPRESSED: u8 = 4;
/// DER-encoded object identifiers of algorithms and curves, and their names.
const KEY_TYPES: [(&[u8], &str); 7] = [
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], P256),
    (&[0x2b, 0x81, 0x04, 0x00, 0x22], "ECDSA P-384"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x23], "ECDSA P-521"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x0a], "ECDSA secp256k1"),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01],
        "RSA",
    ),
    (&[0x06, 0x03, 0x2b, 0x65, 0x70], "Ed25519"),
    (&[0x06, 0x03, 0x2b, 0x65, 0x71], "Ed448"),
];

/// The sha256 of a public key (SubjectPublicKeyInfo, DER).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; 32]);

/// A public key, which verifies signatures.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    point: [u8; POINT_BYTES],
}

/// A private key, which signs.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    public: PublicKey,
}

impl PublicKey {
    /// Parses a public key: PEM with one section `PUBLIC KEY`.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let der = decode_only_section(text, SectionKind::PublicKey, "PUBLIC KEY")?;
        let point = der.strip_prefix(&P256_PREFIX);
        let point = point.and_then(|point| <[u8; POINT_BYTES]>::try_from(point).ok());
        match point {
            Some(point) if point[0] == UNCOMPRESSED => Ok(Self { point }),
            _ => Err(key_error(
                &der,
                " with an uncompressed point: openssl pkey -pubin -pubout -ec_conv_form uncompressed \
                 converts it",
            )),
        }
    }

    /// The sha256 of the key.
    #[must_use]
    pub fn id(&self) -> KeyId {
        let der = [&P256_PREFIX[..], &self.point].concat();
        let mut id = [0; 32];
        id.copy_from_slice(digest(&SHA256, &der).as_ref());
        KeyId(id)
    }

    /// Whether this key made the ASN.1 signature of the message.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.point);
        key.verify(message, signature).is_ok()
    }
}

impl SigningKey {
    /// Parses a private key: PEM with one section `PRIVATE KEY` (PKCS #8, not encrypted).
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let der = decode_only_section(text, SectionKind::PrivateKey, "PRIVATE KEY")?;
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der, &random);
        let pair = pair.map_err(|_| key_error(&der, " with its public half in it"))?;
        let point = <[u8; POINT_BYTES]>::try_from(pair.public_key().as_ref());
        let point = point.map_err(|_| KeyError::Invalid(""))?;
        Ok(Self {
            public: PublicKey { point },
            pair,
        })
    }

    /// The public half.
    #[must_use]
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let signature = self.pair.sign(&SystemRandom::new(), message);
        let signature = signature.map_err(|_| KeyError::NoRandomNumbers)?;
        Ok(signature.as_ref().to_vec())
    }
}

/// The error for a key that cannot be used: of another type than P-256, or an invalid P-256 key.
fn key_error(der: &[u8], detail: &'static str) -> KeyError {
    let contains = |identifier: &[u8]| der.windows(identifier.len()).any(|part| part == identifier);
    let key_type = KEY_TYPES
        .iter()
        .find(|(identifier, _)| contains(identifier));
    match key_type {
        Some((_, P256)) => KeyError::Invalid(detail),
        Some((_, found)) => KeyError::OtherType { found },
        None => KeyError::OtherType { found: "unknown" },
    }
}

impl KeyId {
    /// The id in Base64, as cosign and its libraries write it into a bundle's hint.
    #[must_use]
    pub fn hint(self) -> String {
        STANDARD.encode(self.0)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hint())
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public.id())
    }
}
