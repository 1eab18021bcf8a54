//! QEMU arguments that libvirt has no element for: values that firmware and guest read through
//! fw_cfg, and the MMIO window that large GPU memories need.

use hooks_sdk::{Context, Description, Domain, Hook, HookPoint, Result, Vmi, veto};

/// The prefix of annotations with values for the guest: the rest of the name is the fw_cfg name
/// below `opt/`.
const FW_CFG: &str = "fw-cfg.example.com/";
/// The MMIO window above 4 GiB for the memories of PCI devices, in MiB, as OVMF wants to know it.
const MMIO_MIB: &str = "qemu.example.com/pci-mmio-mib";

/// The hook.
#[derive(Debug, Default)]
pub struct QemuArgs;

impl Hook for QemuArgs {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::OnDefineDomain];

    fn describe(description: Description) -> Description {
        description.with_paths(["/domain/qemu:commandline/**"])
    }

    fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
        for (name, value) in vmi.annotations() {
            if let Some(name) = name.strip_prefix(FW_CFG) {
                add_fw_cfg(domain, name, value)?;
            }
        }
        if let Some(mib) = vmi.annotation(MMIO_MIB) {
            let mib: u32 = mib.parse().context(MMIO_MIB)?;
            add_fw_cfg(domain, "ovmf/X-PciMmio64Mb", &mib.to_string())?;
        }
        Ok(())
    }
}

fn add_fw_cfg(domain: &mut Domain, name: &str, value: &str) -> Result {
    // QEMU's limit, with what it puts before it and after.
    if name.len() > 50 {
        return Err(veto(format!(
            "the fw_cfg name {name:?} has more than 50 bytes"
        )));
    }
    // A comma would begin another option; QEMU reads a doubled comma as one.
    let [name, value] = [name, value].map(|text| text.replace(',', ",,"));
    let argument = format!("name=opt/{name},string={value}");
    domain.add_qemu_args(["-fw_cfg", argument.as_str()]);
    Ok(())
}

hooks_sdk::export!(QemuArgs);
