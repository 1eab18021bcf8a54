//! Sigstore bundles of files that are signed with a key, made and verified without network.
//!
//! One kind of bundle is supported: version 0.3 with a `messageSignature` by an ECDSA P-256 key over SHA-256, and
//! a `publicKey` hint. cosign makes and verifies the same. Entries of transparency logs and timestamps are
//! ignored: who verifies has the key, and trusts it. All other bundles and keys are refused by name.
//!
//! Source of the format: `sigstore_bundle.proto` and `sigstore_common.proto` of sigstore/protobuf-specs, in their JSON
//! form.

mod bundle;
mod bundle_json;
mod ecdsa_key;
mod error;
mod pem_section;

pub use bundle::Bundle;
pub use ecdsa_key::{KeyId, PublicKey, SigningKey};
pub use error::{BundleError, KeyError, MAX_BUNDLE, VerifyError};

/// What follows a file's name in that of its bundle, as cosign's users have it.
pub const SUFFIX: &str = ".sigstore.json";
