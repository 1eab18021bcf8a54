//! Sets the base board's manufacturer, as a guest reads it from SMBIOS, from an annotation.

use hooks_sdk::{Description, Domain, Hook, HookPoint, Result, Vmi};

/// The annotation, the same as in KubeVirt's own example sidecar.
const MANUFACTURER: &str = "smbios.vm.kubevirt.io/baseBoardManufacturer";

/// The hook.
#[derive(Debug, Default)]
pub struct Smbios;

impl Hook for Smbios {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::OnDefineDomain];

    fn describe(description: Description) -> Description {
        description.with_paths(["/domain/os/smbios/**", "/domain/sysinfo/baseBoard/**"])
    }

    fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
        let Some(manufacturer) = vmi.annotation(MANUFACTURER) else {
            return Ok(());
        };
        domain.set("os/smbios/@mode", "sysinfo")?;
        domain.set(
            "sysinfo[@type='smbios']/baseBoard/entry[@name='manufacturer']",
            manufacturer,
        )?;
        Ok(())
    }
}

hooks_sdk::export!(Smbios);
