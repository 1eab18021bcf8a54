//! Checks that an ended launcher has left no mount and no socket in its pod.

use std::fs;

use anyhow::{Result, bail, ensure};

use crate::test_vm::TestVm;

/// Checks that no mount of the pod is left and, after a clean exit, no socket.
pub(crate) fn check_nothing_left(vm: &TestVm, is_clean_exit: bool) -> Result<()> {
    let root = vm.pod.path("/run");
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    ensure!(
        !mounts.contains(&*root.to_string_lossy()),
        "a mount of the pod is left"
    );
    if !is_clean_exit {
        return Ok(());
    }
    for directory in ["/run/kubevirt/sockets", "/run/kubevirt/container-disks"] {
        for entry in fs::read_dir(vm.pod.path(directory))? {
            let name = entry?.file_name();
            let name = name.to_string_lossy();
            if name.ends_with("sock") {
                bail!("{directory}/{name} is left");
            }
        }
    }
    Ok(())
}
