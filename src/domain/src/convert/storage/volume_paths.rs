//! Where the data of claims are in the pod.

const CLAIMS: &str = "/var/run/kubevirt-private/vmi-disks";
const HOTPLUG: &str = "/var/run/kubevirt/hotplug-disks";

/// The directory of a volume's images.
pub(crate) fn directory(volume: &str) -> String {
    format!("{CLAIMS}/{volume}")
}

/// The block device of a claim.
pub(crate) fn block(volume: &str, is_hotplugged: bool) -> String {
    match is_hotplugged {
        true => format!("{HOTPLUG}/{volume}"),
        false => format!("/dev/{volume}"),
    }
}

/// The image on a claim with a file system.
pub(crate) fn file(volume: &str, is_hotplugged: bool) -> String {
    match is_hotplugged {
        true => format!("{HOTPLUG}/{volume}.img"),
        false => format!("{}/disk.img", directory(volume)),
    }
}
