//! Limits of what is pulled from and pushed to a registry.

/// Maximum size of a blob in bytes: a layer with several modules, each of at most 32 MiB.
pub(super) const MAX_BLOB: u64 = 256 << 20;
/// Maximum size of hook.yaml, and of a signature, in bytes.
pub(super) const MAX_TEXT: u64 = 256 << 10;
/// Maximum number of bytes of a name or media type that an error shows.
pub(super) const MAX_PRINTED: usize = 200;
