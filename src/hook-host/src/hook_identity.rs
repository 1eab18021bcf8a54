//! Name, version and digest of a hook.

/// Name and version that a hook declares, and the digest of its module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HookIdentity {
    /// The name from the module's description or the sidecar's Info.
    pub name: String,
    /// The version from the module's description; may be empty.
    pub version: String,
    /// The sha256 of the module in hexadecimal; empty for a sidecar.
    pub digest: String,
}
