//! Checks that an ended launcher has left no socket in its pod.

use std::fs;

use anyhow::{Result, bail};

use crate::test_vm::TestVm;

/// Checks that no socket is left after a clean exit.
pub(crate) fn check_no_socket_left(vm: &TestVm) -> Result<()> {
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
