//! The technology that protects a guest from its host.

use kubevirt_api::vmi::LaunchSecurity;

/// The technology that protects a guest from its host. Firmware and devices depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    None,
    /// AMD SEV and SEV-ES.
    Sev,
    /// AMD SEV-SNP.
    Snp,
    /// Intel TDX.
    Tdx,
    /// IBM Secure Execution.
    SecureExecution,
}

impl Protection {
    /// The technology of the processor that the VMI names.
    pub(crate) fn of_processor(security: &LaunchSecurity) -> Self {
        match security {
            security if security.snp.is_some() => Self::Snp,
            security if security.sev.is_some() => Self::Sev,
            security if security.tdx.is_some() => Self::Tdx,
            _ => Self::None,
        }
    }

    /// Whether devices reach only memory that the guest shares with the host. Each virtio device then gets `iommu='on'`,
    /// which makes the guest's driver use the DMA API.
    pub(crate) fn hides_memory(self) -> bool {
        matches!(self, Self::Sev | Self::Snp | Self::SecureExecution)
    }

    /// Whether the guest needs firmware of its own.
    pub(crate) fn has_own_firmware(self) -> bool {
        matches!(self, Self::Sev | Self::Snp | Self::Tdx)
    }

    /// Whether the firmware is measured as a whole and has no variable store.
    pub(crate) fn is_stateless(self) -> bool {
        matches!(self, Self::Snp | Self::Tdx)
    }

    /// Whether the firmware image contains the secure boot keys. Then libvirt's `secure` attribute is not set, because
    /// it would require SMM.
    pub(crate) fn has_keys_in_firmware(self) -> bool {
        self == Self::Tdx
    }
}
