//! A hook that was pulled from an image.

/// The largest hook.yaml and signature in bytes.
pub(super) const MAX_TEXT: u64 = 256 << 10;
pub(super) const MAX_PRINTED: usize = 200;

/// A hook of an image.
pub(super) struct PulledHook {
    pub(super) name: String,
    pub(super) module: Vec<u8>,
    pub(super) hook_yaml: Option<Vec<u8>>,
    pub(super) signature: Option<String>,
}
