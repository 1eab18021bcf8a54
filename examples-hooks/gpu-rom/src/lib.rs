//! Gives a GPU the ROM that is in a ConfigMap of the virtual machine.

use hooks_sdk::{Description, Domain, Hook, HookPoint, Result, Vmi, veto};

/// The annotation of a GPU or host device begins so and ends with its name. Its value is VOLUME/FILE.
const ROM: &str = "rom.example.com/";
/// Where KubeVirt mounts the ConfigMaps of a VM's volumes in the container of QEMU.
const CONFIG_MAPS: &str = "/var/run/kubevirt-private/config-map";

/// The hook.
#[derive(Debug, Default)]
pub struct GpuRom;

impl Hook for GpuRom {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::OnDefineDomain];

    fn describe(description: Description) -> Description {
        description.with_paths([
            "/domain/devices/hostdev[@type='pci']/rom",
            "/domain/devices/hostdev[@type='pci']/rom/@file",
        ])
    }

    fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
        for (annotation, rom) in vmi.annotations() {
            let Some(name) = annotation.strip_prefix(ROM) else {
                continue;
            };
            let file =
                rom_file(vmi, rom).map_err(|why| veto(format!("{annotation}, {rom:?}, {why}")))?;
            let device = domain.host_device_mut(name);
            let Some(device) = device.filter(|device| device.is_attr("type", "pci")) else {
                let why = "and the virtual machine has no such PCI device";
                return Err(veto(format!("{annotation} is set, {why}")));
            };
            device.set("rom/@file", file)?;
        }
        Ok(())
    }
}

/// The path of VOLUME/FILE in the container of QEMU. Who writes the annotation must not name any other file.
fn rom_file(vmi: &Vmi, rom: &str) -> std::result::Result<String, &'static str> {
    let (volume, file) = rom.split_once('/').ok_or("is not VOLUME/FILE")?;
    if file.is_empty() || file.contains('/') || file.starts_with('.') {
        return Err("does not name a key of a ConfigMap");
    }
    let mut volumes = vmi.volumes();
    let volume = volumes.find(|known| known.name() == volume && known.kind() == Some("configMap"));
    let volume = volume.ok_or("does not begin with the name of a volume of the kind configMap")?;
    Ok(format!("{CONFIG_MAPS}/{}/{file}", volume.name()))
}

hooks_sdk::export!(GpuRom);
