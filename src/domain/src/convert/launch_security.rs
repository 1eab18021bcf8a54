//! Confidential computing: AMD SEV, SEV-ES and SEV-SNP, Intel TDX.
//!
//! Under SEV the host cannot read the guest's memory, so every virtio device has to go through the
//! guest's IOMMU; the device's own file asks [`Context::iommu`] for that.

use super::{Context, ConvertError};
use crate::spec::{DomainSpec, LaunchSecurity, QuoteGenerationService};
use crate::vmi::{self, Sev};

const SEV_NO_DEBUG: u32 = 1 << 0;
const SEV_ENCRYPTED_STATE: u32 = 1 << 2;
const SNP_SMT: u32 = 1 << 16;
const SNP_RESERVED: u32 = 1 << 17;
const QUOTE_SOCKET: &str = "kubevirt.io/qgs-socket-path";

/// What protects a guest from its host. Firmware and devices differ by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protection {
    None,
    Sev,
    Snp,
    Tdx,
}

impl Protection {
    pub(super) fn of(security: Option<&vmi::LaunchSecurity>) -> Self {
        match security {
            Some(security) if security.snp.is_some() => Self::Snp,
            Some(security) if security.sev.is_some() => Self::Sev,
            Some(security) if security.tdx.is_some() => Self::Tdx,
            _ => Self::None,
        }
    }

    /// AMD's kinds.
    pub(super) fn encrypts_memory(self) -> bool {
        matches!(self, Self::Sev | Self::Snp)
    }

    /// Firmware without variables of its own, measured as a whole.
    pub(super) fn is_stateless(self) -> bool {
        matches!(self, Self::Snp | Self::Tdx)
    }
}

pub(super) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let Some(security) = &context.vmi.spec.domain.launch_security else {
        return Ok(());
    };
    let kinds = [
        security.sev.is_some(),
        security.snp.is_some(),
        security.tdx.is_some(),
    ];
    if kinds.into_iter().filter(|asked| *asked).count() > 1 {
        return Err(ConvertError::refused(
            "spec.domain.launchSecurity asks for several of sev, snp and tdx; \
             there can be only one kind of launch security",
        ));
    }
    spec.launch_security = match security {
        vmi::LaunchSecurity { sev: Some(sev), .. } => Some(of_sev(sev)),
        vmi::LaunchSecurity { snp: Some(_), .. } => Some(LaunchSecurity {
            kind: "sev-snp".into(),
            policy: format!("{:#x}", SNP_SMT | SNP_RESERVED),
            ..LaunchSecurity::default()
        }),
        vmi::LaunchSecurity { tdx: Some(_), .. } => Some(of_tdx(context)),
        _ => None,
    };
    Ok(())
}

fn of_sev(sev: &Sev) -> LaunchSecurity {
    let encrypts_state = sev
        .policy
        .as_ref()
        .is_some_and(|policy| policy.encrypted_state == Some(true));
    let policy = if encrypts_state {
        SEV_NO_DEBUG | SEV_ENCRYPTED_STATE
    } else {
        SEV_NO_DEBUG
    };
    LaunchSecurity {
        kind: "sev".into(),
        policy: format!("{policy:#x}"),
        dh_cert: sev.dh_cert.clone(),
        session: sev.session.clone(),
        ..LaunchSecurity::default()
    }
}

fn of_tdx(context: &Context<'_>) -> LaunchSecurity {
    let socket = context.vmi.annotation(QUOTE_SOCKET).unwrap_or_default();
    LaunchSecurity {
        kind: "tdx".into(),
        quote_generation_service: Some(QuoteGenerationService {
            path: socket.into(),
        }),
        ..LaunchSecurity::default()
    }
}
