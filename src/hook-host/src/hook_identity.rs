//! Which module or sidecar a hook is.

/// What a hook says it is, and the digest of what runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HookIdentity {
    /// The name in its description or Info.
    pub name: String,
    /// The version in its description; may be empty.
    pub version: String,
    /// The sha256 of the module in hexadecimal; empty for a sidecar.
    pub digest: String,
}
