//! Launch security of confidential guests on AMD SEV: the measurement by which the owner verifies a guest, and the
//! secret that the guest receives afterwards.

use crate::error::Result;

/// The SEV firmware of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SevInfo {
    /// The platform's Diffie-Hellman key, base64.
    pub pdh: String,
    /// The certificate chain, base64.
    pub cert_chain: String,
}

/// How a guest was launched. Values that libvirt does not report are zero or empty.
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

/// A secret that libvirt writes into the guest's memory.
#[derive(Clone, PartialEq, Eq)]
pub struct LaunchSecret {
    /// The packet header, base64.
    pub header: String,
    /// The encrypted secret, base64.
    pub secret: String,
}

/// Omits the fields, which are secret.
impl std::fmt::Debug for LaunchSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LaunchSecret")
    }
}

/// The launch security of a domain.
pub trait LaunchSecurity {
    /// How the guest was launched.
    fn launch_security_info(&self) -> Result<LaunchSecurityInfo>;

    /// Writes a secret into the memory of a guest that is paused before its first instruction.
    fn set_launch_secret(&self, secret: &LaunchSecret) -> Result<()>;
}
