//! Hypervisor features.

use serde::Deserialize;

use super::null_as_default;

/// A feature that is on by default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FeatureState {
    /// On by default.
    pub enabled: Option<bool>,
}

impl FeatureState {
    /// Whether the feature is on.
    pub fn is_enabled(&self) -> bool {
        self.enabled.unwrap_or(true)
    }
}

/// Hypervisor features.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Features {
    /// ACPI.
    #[serde(deserialize_with = "null_as_default")]
    pub acpi: FeatureState,
    /// APIC.
    pub apic: Option<FeatureApic>,
    /// Hyper-V enlightenments.
    pub hyperv: Option<FeatureHyperv>,
    /// Enables every enlightenment that the host supports.
    pub hyperv_passthrough: Option<FeatureState>,
    /// System management mode.
    pub smm: Option<FeatureState>,
    /// KVM as the guest sees it.
    pub kvm: Option<FeatureKvm>,
    /// Paravirtual spinlocks.
    pub pvspinlock: Option<FeatureState>,
}

/// APIC.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FeatureApic {
    /// On by default.
    pub enabled: Option<bool>,
}

/// KVM as the guest sees it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FeatureKvm {
    /// Whether the guest cannot see that it runs on KVM.
    #[serde(deserialize_with = "null_as_default")]
    pub hidden: bool,
}

/// Hyper-V enlightenments.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct FeatureHyperv {
    pub relaxed: Option<FeatureState>,
    pub vapic: Option<FeatureState>,
    pub spinlocks: Option<FeatureSpinlocks>,
    pub vpindex: Option<FeatureState>,
    pub runtime: Option<FeatureState>,
    pub synic: Option<FeatureState>,
    pub synictimer: Option<SynicTimer>,
    pub reset: Option<FeatureState>,
    pub vendorid: Option<FeatureVendorId>,
    pub frequencies: Option<FeatureState>,
    pub reenlightenment: Option<FeatureState>,
    pub tlbflush: Option<TlbFlush>,
    pub ipi: Option<FeatureState>,
    pub evmcs: Option<FeatureState>,
}

/// Spinlocks.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct FeatureSpinlocks {
    /// On by default.
    pub enabled: Option<bool>,
    /// Retries, 4096 by default.
    #[serde(rename = "spinlocks")]
    pub retries: Option<u32>,
}

/// Synthetic timers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct SynicTimer {
    /// On by default.
    pub enabled: Option<bool>,
    /// Direct mode.
    pub direct: Option<FeatureState>,
}

/// TLB flush hypercalls.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct TlbFlush {
    /// On by default.
    pub enabled: Option<bool>,
    /// Direct mode.
    pub direct: Option<FeatureState>,
    /// Extended ranges.
    pub extended: Option<FeatureState>,
}

/// The hypervisor's vendor name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct FeatureVendorId {
    /// On by default.
    pub enabled: Option<bool>,
    /// The vendor name that the guest sees.
    #[serde(rename = "vendorid", deserialize_with = "null_as_default")]
    pub vendor_id: String,
}
