//! Confidential computing: AMD SEV, SEV-ES and SEV-SNP, Intel TDX.
//!
//! Under SEV a device can reach only memory that the guest shares, so every virtio device gets `iommu='on'`; see
//! `Context::iommu`.

use kubevirt_api::vmi::{self, Sev, Vmi};

use crate::convert::error::ConvertError;
use crate::kubevirt_version::Behaviour;
use crate::libvirt_spec::{LaunchSecurity, QuoteGenerationService};

const SEV_NO_DEBUG: u32 = 1 << 0;
const SEV_ENCRYPTED_STATE: u32 = 1 << 2;
const SNP_SMT: u32 = 1 << 16;
const SNP_RESERVED: u32 = 1 << 17;
/// The annotation with the socket of TDX's quote generation service.
const QUOTE_SOCKET_ANNOTATION: &str = "kubevirt.io/qgs-socket-path";

pub(crate) fn launch_security(
    vmi: &Vmi,
    behaviour: Behaviour,
) -> Result<Option<LaunchSecurity>, ConvertError> {
    let Some(security) = &vmi.spec.domain.launch_security else {
        return Ok(None);
    };
    let kinds = [
        security.sev.is_some(),
        security.snp.is_some(),
        security.tdx.is_some(),
    ];
    if kinds
        .into_iter()
        .filter(|is_requested| *is_requested)
        .count()
        > 1
    {
        return Err(ConvertError::invalid(
            "spec.domain.launchSecurity asks for several of sev, snp and tdx; \
             there can be only one kind of launch security",
        ));
    }
    Ok(match security {
        vmi::LaunchSecurity { sev: Some(sev), .. } => Some(sev_element(sev)),
        vmi::LaunchSecurity { snp: Some(_), .. } => Some(LaunchSecurity {
            kind: "sev-snp".into(),
            policy: format!("{:#x}", SNP_SMT | SNP_RESERVED),
            ..LaunchSecurity::default()
        }),
        vmi::LaunchSecurity { tdx: Some(_), .. } => Some(tdx_element(vmi, behaviour)),
        _ => None,
    })
}

fn sev_element(sev: &Sev) -> LaunchSecurity {
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

fn tdx_element(vmi: &Vmi, behaviour: Behaviour) -> LaunchSecurity {
    LaunchSecurity {
        kind: "tdx".into(),
        quote_generation_service: behaviour
            .tdx_has_quote_service
            .then(|| QuoteGenerationService {
                path: vmi
                    .annotation(QUOTE_SOCKET_ANNOTATION)
                    .unwrap_or_default()
                    .into(),
            }),
        ..LaunchSecurity::default()
    }
}
