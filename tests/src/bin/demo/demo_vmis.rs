//! The VMIs of the demo's scenarios.

use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

/// The board vendor for which the VMI asks the smbios hook.
pub(crate) const MANUFACTURER: &str = "Radical Edward";
pub(crate) const USER_DATA: &str = "#cloud-config\npassword: demo\n";
/// The cache mode that the disk-tuning hook sets on a migration's target.
pub(crate) const CACHE_MODE: &str = "writeback";

fn vmi_with_board_vendor(user: LauncherUser) -> Vmi {
    Vmi::new("demo", user).annotate("smbios.vm.kubevirt.io/baseBoardManufacturer", MANUFACTURER)
}

/// The VMI of the QEMU scenario.
pub(crate) fn for_qemu(user: LauncherUser) -> Vmi {
    vmi_with_board_vendor(user)
        .cloud_init(USER_DATA)
        .empty_disk("scratch", "64Mi")
        .grace_period(20)
}

/// The VMI of the QEMU scenario, without what the test driver does not support.
pub(crate) fn for_test_driver() -> Vmi {
    vmi_with_board_vendor(LauncherUser::Nonroot)
        .cloud_init(USER_DATA)
        .edit(|vmi| {
            if let Some(firmware) = vmi["spec"]["domain"]["firmware"].as_object_mut() {
                firmware.remove("kernelBoot");
            }
        })
}

/// The VMI of the migration scenario.
pub(crate) fn for_migration(user: LauncherUser) -> Vmi {
    let size = 1 << 20;
    vmi_with_board_vendor(user)
        .cloud_init("#cloud-config\n")
        .edit(|vmi| {
            vmi["status"]["volumeStatus"] =
                serde_json::json!([{ "name": "cloudinit", "target": "vda", "size": size }]);
        })
}

/// The VMI as the target's virt-handler sends it: its owner has asked for another cache mode since the boot.
pub(crate) fn with_cache_mode(vmi: &Vmi) -> Vmi {
    vmi.clone()
        .annotate("disk-tuning.example.com/cache", CACHE_MODE)
}
