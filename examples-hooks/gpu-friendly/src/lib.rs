//! Configures a virtual machine with a GPU as GPU drivers expect: hidden KVM, interrupts through KVM's own IO APIC,
//! another hypervisor vendor ID.

use hooks_sdk::{Description, Domain, Hook, HookPoint, Result, Vmi, veto};

/// Annotation with the vendor ID of the hypervisor that the guest sees; 1 to 12 bytes.
const VENDOR_ID_ANNOTATION: &str = "gpu.example.com/vendor-id";

/// The hook.
#[derive(Debug, Default)]
pub struct GpuFriendly;

impl Hook for GpuFriendly {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::OnDefineDomain];

    fn describe(description: Description) -> Description {
        description.with_paths([
            "/domain/features",
            "/domain/features/kvm/**",
            "/domain/features/ioapic/**",
            "/domain/features/hyperv/**",
        ])
    }

    fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
        if vmi.gpus().chain(vmi.host_devices()).next().is_none() {
            return Ok(());
        }
        let vendor = vmi.annotation(VENDOR_ID_ANNOTATION).unwrap_or("none");
        if vendor.is_empty() || vendor.len() > 12 || vendor.contains(',') {
            let reason = "is not a text of 1 to 12 bytes without commas";
            return Err(veto(format!(
                "{VENDOR_ID_ANNOTATION}, {vendor:?}, {reason}"
            )));
        }
        domain.set("features/kvm/hidden/@state", "on")?;
        domain.set("features/ioapic/@driver", "kvm")?;
        domain.set("features/hyperv/vendor_id/@state", "on")?;
        domain.set("features/hyperv/vendor_id/@value", vendor)?;
        Ok(())
    }
}

hooks_sdk::export!(GpuFriendly);
