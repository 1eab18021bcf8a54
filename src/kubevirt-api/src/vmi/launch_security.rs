//! Confidential computing (`launchSecurity`).

use serde::Deserialize;

use super::null_as_default;

/// The technology for confidential computing, of which one is set.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct LaunchSecurity {
    /// AMD SEV and SEV-ES.
    pub sev: Option<Sev>,
    /// AMD SEV-SNP.
    pub snp: Option<serde_json::Value>,
    /// Intel TDX.
    pub tdx: Option<serde_json::Value>,
}

/// AMD SEV and SEV-ES.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Sev {
    /// The policy of the guest's owner.
    pub policy: Option<SevPolicy>,
    /// The session of the guest's owner, in base64.
    #[serde(deserialize_with = "null_as_default")]
    pub session: String,
    /// The Diffie-Hellman key of the guest's owner, in base64.
    #[serde(deserialize_with = "null_as_default")]
    pub dh_cert: String,
}

/// The policy of the guest's owner for SEV.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SevPolicy {
    /// Whether the CPU state is encrypted too (SEV-ES).
    pub encrypted_state: Option<bool>,
}
