//! The hooks that were pulled from an image or artifact.

use image_layout::Digest;

/// A hook of an image or artifact.
pub(super) struct PulledHook {
    pub(super) name: String,
    pub(super) module: Vec<u8>,
    pub(super) hook_yaml: Option<Vec<u8>>,
    pub(super) signature: Option<String>,
}

/// The hooks of an image or artifact.
pub(super) struct PulledHooks {
    /// The digest of the manifest or index that the reference names.
    pub(super) digest: Digest,
    pub(super) kind: &'static str,
    pub(super) hooks: Vec<PulledHook>,
}
