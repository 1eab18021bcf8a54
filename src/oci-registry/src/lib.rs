//! A client of OCI registries (distribution-spec v1.1): manifests and blobs, with deadlines and size limits.
//!
//! A registry is not trusted: every answer has a size limit, every request a deadline, everything that is addressed by
//! a digest is checked against the digest, and credentials are sent to the registry and its token service only
//! (`token_service`).
//! TLS is required unless the caller asks for plain HTTP.

mod client_options;
mod credentials;
mod error;
mod http_transport;
mod image_reference;
mod percent_encoding;
mod repository_client;
mod tls;
mod token_service;

pub use client_options::{Limits, Options};
pub use credentials::Credentials;
pub use error::RegistryError;
pub use image_reference::{Reference, ReferenceError};
pub use repository_client::{Client, Manifest};

/// The maximum size of a manifest, configuration or index in bytes, which is also what registries accept.
pub const MAX_MANIFEST: u64 = 4 << 20;
