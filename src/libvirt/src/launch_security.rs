//! Confidential guests on AMD SEV: what the owner of a guest needs to trust it, and the secret that the guest gets then.

use crate::error::Result;

/// The SEV firmware of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SevInfo {
    /// The platform's Diffie-Hellman key, base64.
    pub pdh: String,
    /// The certificate chain, base64.
    pub cert_chain: String,
}

/// How a guest was launched. What libvirt does not report is zero or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchSecurityInfo {
    /// The launch measurement, base64.
    pub measurement: String,
    /// Major version of the SEV API.
    pub api_major: u64,
    /// Minor version of the SEV API.
    pub api_minor: u64,
    /// Build of the SEV firmware.
    pub build_id: u64,
    /// The guest's policy.
    pub policy: u64,
}

/// A secret for the guest's memory.
#[derive(Clone, PartialEq, Eq)]
pub struct LaunchSecret {
    /// The packet header, base64.
    pub header: String,
    /// The encrypted secret, base64.
    pub secret: String,
}

/// It is a secret.
impl std::fmt::Debug for LaunchSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LaunchSecret")
    }
}

/// Confidential guests.
pub trait LaunchSecurity {
    /// How the guest was launched.
    fn launch_security_info(&self) -> Result<LaunchSecurityInfo>;

    /// Puts a secret into the memory of a guest that is paused before its first instruction.
    fn set_launch_secret(&self, secret: &LaunchSecret) -> Result<()>;
}
