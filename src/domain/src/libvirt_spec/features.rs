//! Elements of hypervisor features.

use kubevirt_api::typed_xml::element;

element! {
    /// Hypervisor features.
    Features {
        acpi: Option<FeatureEnabled> = child "acpi" => "ACPI";
        apic: Option<FeatureEnabled> = child "apic" => "APIC";
        hyperv: Option<FeatureHyperv> = child "hyperv" => "Hyperv";
        smm: Option<FeatureEnabled> = child "smm" => "SMM";
        kvm: Option<FeatureKvm> = child "kvm" => "KVM";
        pvspinlock: Option<FeaturePvSpinlock> = child "pvspinlock" => "PVSpinlock";
        pmu: Option<FeatureState> = child "pmu" => "PMU";
        vmport: Option<FeatureState> = child "vmport" => "VMPort";
    }

    /// A feature that is on if the element is present.
    FeatureEnabled {}

    /// A feature with an on/off state.
    FeatureState {
        state: String = attr "state" when set => "State";
    }

    /// Features of KVM.
    FeatureKvm {
        hidden: Option<FeatureState> = child "hidden" => "Hidden";
        hint_dedicated: Option<FeatureState> = child "hint-dedicated" => "HintDedicated";
    }

    /// Paravirtual spinlocks.
    FeaturePvSpinlock {
        state: String = attr "state" when set => "State";
    }

    /// Hyper-V enlightenments.
    FeatureHyperv {
        mode: String = attr "mode" when set => "Mode";
        relaxed: Option<FeatureState> = child "relaxed" => "Relaxed";
        vapic: Option<FeatureState> = child "vapic" => "VAPIC";
        spinlocks: Option<FeatureSpinlocks> = child "spinlocks" => "Spinlocks";
        vpindex: Option<FeatureState> = child "vpindex" => "VPIndex";
        runtime: Option<FeatureState> = child "runtime" => "Runtime";
        synic: Option<FeatureState> = child "synic" => "SyNIC";
        synic_timer: Option<SynicTimer> = child "stimer" => "SyNICTimer";
        reset: Option<FeatureState> = child "reset" => "Reset";
        vendor_id: Option<FeatureVendorId> = child "vendor_id" => "VendorID";
        frequencies: Option<FeatureState> = child "frequencies" => "Frequencies";
        reenlightenment: Option<FeatureState> = child "reenlightenment" => "Reenlightenment";
        tlbflush: Option<TlbFlush> = child "tlbflush" => "TLBFlush";
        ipi: Option<FeatureState> = child "ipi" => "IPI";
        evmcs: Option<FeatureState> = child "evmcs" => "EVMCS";
    }

    /// Hyper-V spinlocks and their retries.
    FeatureSpinlocks {
        state: String = attr "state" when set => "State";
        retries: Option<u32> = attr "retries" => "Retries";
    }

    /// Hyper-V synthetic timers.
    SynicTimer {
        direct: Option<FeatureState> = child "direct" => "Direct";
        state: String = attr "state" when set => "State";
    }

    /// Hyper-V TLB flush hypercalls.
    TlbFlush {
        direct: Option<FeatureState> = child "direct" => "Direct";
        extended: Option<FeatureState> = child "extended" => "Extended";
        state: String = attr "state" when set => "State";
    }

    /// The hypervisor's vendor name.
    FeatureVendorId {
        state: String = attr "state" when set => "State";
        value: String = attr "value" when set => "Value";
    }
}
