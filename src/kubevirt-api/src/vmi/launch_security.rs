//! Confidential guests (`launchSecurity`).

use serde::Deserialize;

use super::null_as_default;

/// Confidential computing: one of them.
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
    /// What the guest's owner demands.
    pub policy: Option<SevPolicy>,
    /// The owner's session, base64.
    #[serde(deserialize_with = "null_as_default")]
    pub session: String,
    /// The owner's Diffie-Hellman key, base64.
    #[serde(deserialize_with = "null_as_default")]
    pub dh_cert: String,
}

/// What the guest's owner demands of SEV.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SevPolicy {
    /// Processor state is encrypted too (SEV-ES).
    pub encrypted_state: Option<bool>,
}
