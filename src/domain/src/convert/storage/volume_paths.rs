//! Paths in the pod of volumes' images, block devices and changed-block images, and libvirt's directory.

use kubevirt_api::vmi::Vmi;

const CLAIM_IMAGES_DIR: &str = "/var/run/kubevirt-private/vmi-disks";
const HOTPLUG_DISKS_DIR: &str = "/var/run/kubevirt/hotplug-disks";

/// The directory of a volume's images.
pub(crate) fn directory(volume: &str) -> String {
    format!("{CLAIM_IMAGES_DIR}/{volume}")
}

/// The image that tracks a volume's changed blocks.
pub(crate) fn changed_blocks(vmi: &Vmi, volume: &str) -> String {
    format!("{}/cbt/{volume}.qcow2", libvirt_directory(vmi))
}

/// libvirt's directory of QEMU guests.
pub(crate) fn libvirt_directory(vmi: &Vmi) -> &'static str {
    if vmi.is_non_root() {
        "/var/run/kubevirt-private/libvirt/qemu"
    } else {
        "/var/lib/libvirt/qemu"
    }
}

/// The block device of a claim.
pub(crate) fn block(volume: &str, is_hotplugged: bool) -> String {
    match is_hotplugged {
        true => format!("{HOTPLUG_DISKS_DIR}/{volume}"),
        false => format!("/dev/{volume}"),
    }
}

/// The image on a claim with a file system.
pub(crate) fn file(volume: &str, is_hotplugged: bool) -> String {
    match is_hotplugged {
        true => format!("{HOTPLUG_DISKS_DIR}/{volume}.img"),
        false => format!("{}/disk.img", directory(volume)),
    }
}
