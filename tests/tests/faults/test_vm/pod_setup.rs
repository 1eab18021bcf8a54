//! The files in the pod and the VMI that a [`Setup`] needs.

use anyhow::Result;
use serde_json::json;
use tests::guest_image::Guest;
use tests::pod::{LauncherUser, Pod};
use tests::vmi_builder::Vmi;

use crate::fault_row::Setup;
use crate::hotplugged_disks;

/// Mounts full file systems of 4 KiB at the directories of libvirt's and QEMU's logs.
const FULL_LOGS: &str = "mkdir -p /var/log/libvirt /run/kubevirt-private/libvirt/qemu/log\n\
    for logs in /var/log/libvirt /run/kubevirt-private/libvirt/qemu/log; do\n\
    chown -R 107:107 /run/kubevirt-private/libvirt\n\
    mount -t tmpfs -o size=4k,mode=1777 logs $logs; head -c 4096 /dev/zero >$logs/full || true\n\
    done";

/// A disk of 64 MiB, a directory for backups, and a directory with space for 4 MiB.
const TRACKED_DISK: &str = "mkdir -p /run/kubevirt-private/vmi-disks/data /run/kubevirt/backups /run/kubevirt/full\n\
    head -c 64M /dev/urandom >/run/kubevirt-private/vmi-disks/data/disk.img\n\
    chown -R 107:107 /run/kubevirt-private/vmi-disks /run/kubevirt/backups\n\
    mount -t tmpfs -o size=4m,mode=1777 full /run/kubevirt/full";

/// The directory of the tracked disk.
const TRACKED_DISK_DIRECTORY: &str = "/run/kubevirt-private/vmi-disks/data";

/// Creates the files and mounts in the pod before its launcher starts.
pub(super) fn set_up_pod(pod: &Pod, setup: Setup) -> Result<()> {
    Guest::prepare()?.install_kernel_boot(&pod.path("/run/kubevirt/container-disks"))?;
    if setup == Setup::FullLogs {
        pod.set_up_network(FULL_LOGS, "")?;
    }
    if setup == Setup::TrackedDisk {
        pod.set_up_network(TRACKED_DISK, "")?;
    }
    if setup == Setup::Hotplug {
        hotplugged_disks::put_images(pod)?;
    }
    Ok(())
}

/// Creates the VMI of the VM under test.
pub(super) fn create_vmi(user: LauncherUser, setup: Setup) -> Vmi {
    let vmi = Vmi::new("fault", user).grace_period(setup.grace_seconds());
    match setup {
        Setup::IgnoresPowerButton => vmi.edit(|vmi| {
            if let Some(firmware) = vmi["spec"]["domain"]["firmware"].as_object_mut() {
                firmware.remove("kernelBoot");
            }
        }),
        Setup::TrackedDisk => {
            let disk = format!("{TRACKED_DISK_DIRECTORY}/disk.img");
            let disk = json!({ "hostDisk": { "path": disk, "type": "Disk" } });
            let tracking = json!({ "state": "Initializing" });
            vmi.volume("data", disk)
                .edit(|vmi| vmi["status"]["changedBlockTracking"] = tracking)
        }
        Setup::Hotplug => hotplugged_disks::with_permanent_disk(vmi),
        _ => vmi,
    }
}
