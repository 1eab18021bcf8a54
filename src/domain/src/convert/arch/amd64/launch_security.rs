//! Confidential computing: AMD SEV, SEV-ES and SEV-SNP, Intel TDX.
//!
//! Under SEV the host cannot read the guest's memory, so every virtio device has to go through the
//! guest's IOMMU; see `Context::iommu`.

use kubevirt_api::vmi::{self, Sev, Vmi};

use crate::convert::error::ConvertError;
use crate::libvirt_spec::{LaunchSecurity, QuoteGenerationService};

const SEV_NO_DEBUG: u32 = 1 << 0;
const SEV_ENCRYPTED_STATE: u32 = 1 << 2;
const SNP_SMT: u32 = 1 << 16;
const SNP_RESERVED: u32 = 1 << 17;
const QUOTE_SOCKET: &str = "kubevirt.io/qgs-socket-path";

pub(crate) fn launch_security(vmi: &Vmi) -> Result<Option<LaunchSecurity>, ConvertError> {
    let Some(security) = &vmi.spec.domain.launch_security else {
        return Ok(None);
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
    Ok(match security {
        vmi::LaunchSecurity { sev: Some(sev), .. } => Some(of_sev(sev)),
        vmi::LaunchSecurity { snp: Some(_), .. } => Some(LaunchSecurity {
            kind: "sev-snp".into(),
            policy: format!("{:#x}", SNP_SMT | SNP_RESERVED),
            ..LaunchSecurity::default()
        }),
        vmi::LaunchSecurity { tdx: Some(_), .. } => Some(of_tdx(vmi)),
        _ => None,
    })
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

fn of_tdx(vmi: &Vmi) -> LaunchSecurity {
    let socket = vmi.annotation(QUOTE_SOCKET).unwrap_or_default();
    LaunchSecurity {
        kind: "tdx".into(),
        quote_generation_service: Some(QuoteGenerationService {
            path: socket.into(),
        }),
        ..LaunchSecurity::default()
    }
}
