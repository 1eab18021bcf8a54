//! A pulled image or artifact: its digest, its kind and its hooks.

use image_layout::Digest;

/// A hook of an image or artifact.
pub(super) struct PulledHook {
    pub(super) name: String,
    pub(super) module: Vec<u8>,
    pub(super) hook_yaml: Option<Vec<u8>>,
    pub(super) signature: Option<String>,
}

/// A pulled image or artifact.
pub(super) struct PulledImage {
    /// The digest of the manifest or index that the reference names.
    pub(super) digest: Digest,
    pub(super) kind: &'static str,
    pub(super) hooks: Vec<PulledHook>,
}
