//! Sigstore bundles of files that are signed with a key. They are made and verified without network access.
//!
//! One kind of bundle is supported: version 0.3 with a `messageSignature` by an ECDSA P-256 key over SHA-256, and
//! a `publicKey` hint. cosign makes and verifies the same. Entries of transparency logs and timestamps are
//! ignored, because whoever verifies has the key and trusts it. For all other bundles and keys the error says of which
//! kind they are.
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

/// The suffix of a bundle's file name after the name of the signed file, as is usual with cosign.
pub const SUFFIX: &str = ".sigstore.json";
