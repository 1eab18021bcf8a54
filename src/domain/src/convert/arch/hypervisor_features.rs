//! Hypervisor features that KubeVirt converts on every architecture, with Hyper-V enlightenments. libvirt refuses those that
//! the guest's architecture does not have.

use kubevirt_api::vmi;

use crate::convert::arch::guest_protection::Protection;
use crate::libvirt_spec::{
    FeatureEnabled, FeatureHyperv, FeatureKvm, FeaturePvSpinlock, FeatureSpinlocks, FeatureState,
    FeatureVendorId, Features, SynicTimer, TlbFlush, on_off,
};

pub(crate) fn features(source: &vmi::Features, protection: Protection) -> Features {
    let enabled = |on: bool| on.then(FeatureEnabled::default);
    Features {
        acpi: enabled(source.acpi.is_enabled()),
        apic: enabled(
            source
                .apic
                .as_ref()
                .is_some_and(|apic| apic.enabled.unwrap_or(true)),
        ),
        smm: enabled(
            source
                .smm
                .as_ref()
                .is_some_and(vmi::FeatureState::is_enabled),
        ),
        hyperv: enlightenments(source),
        kvm: source.kvm.as_ref().map(|kvm| FeatureKvm {
            hidden: Some(state(kvm.hidden)),
            ..FeatureKvm::default()
        }),
        pvspinlock: source.pvspinlock.as_ref().map(|feature| FeaturePvSpinlock {
            state: on_off(feature.is_enabled()),
        }),
        vmport: None,
        pmu: (protection == Protection::Tdx).then(|| state(false)),
    }
}

pub(crate) fn state(on: bool) -> FeatureState {
    FeatureState { state: on_off(on) }
}

fn enlightenments(source: &vmi::Features) -> Option<FeatureHyperv> {
    let passthrough = source
        .hyperv_passthrough
        .as_ref()
        .is_some_and(vmi::FeatureState::is_enabled);
    match &source.hyperv {
        Some(hyperv) => Some(convert_hyperv(hyperv)),
        None => passthrough.then(|| FeatureHyperv {
            mode: "passthrough".into(),
            ..FeatureHyperv::default()
        }),
    }
}

fn convert_hyperv(source: &vmi::FeatureHyperv) -> FeatureHyperv {
    let feature = |feature: &Option<vmi::FeatureState>| {
        feature.as_ref().map(|feature| state(feature.is_enabled()))
    };
    FeatureHyperv {
        mode: String::new(),
        relaxed: feature(&source.relaxed),
        vapic: feature(&source.vapic),
        spinlocks: source.spinlocks.as_ref().map(spinlocks),
        vpindex: feature(&source.vpindex),
        runtime: feature(&source.runtime),
        synic: feature(&source.synic),
        synic_timer: source.synictimer.as_ref().map(|timer| SynicTimer {
            direct: feature(&timer.direct),
            state: on_off(timer.enabled.unwrap_or(true)),
        }),
        reset: feature(&source.reset),
        vendor_id: source.vendorid.as_ref().map(vendor_id),
        frequencies: feature(&source.frequencies),
        reenlightenment: feature(&source.reenlightenment),
        tlbflush: source.tlbflush.as_ref().map(|flush| TlbFlush {
            direct: feature(&flush.direct),
            extended: feature(&flush.extended),
            state: on_off(flush.enabled.unwrap_or(true)),
        }),
        ipi: feature(&source.ipi),
        evmcs: feature(&source.evmcs),
    }
}

fn spinlocks(source: &vmi::FeatureSpinlocks) -> FeatureSpinlocks {
    FeatureSpinlocks {
        state: on_off(source.enabled.unwrap_or(true)),
        retries: source.retries,
    }
}

fn vendor_id(source: &vmi::FeatureVendorId) -> FeatureVendorId {
    FeatureVendorId {
        state: on_off(source.enabled.unwrap_or(true)),
        value: source.vendor_id.clone(),
    }
}
