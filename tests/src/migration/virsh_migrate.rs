//! `virsh migrate` in a pod, without the source's launcher.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::MIGRATION_TIMEOUT;
use crate::pod::Pod;
use crate::virsh::driver_mode;
use crate::vmi_builder::Vmi;

/// The directory of the migration proxies in a pod.
const PROXIES: &str = "/var/run/kubevirt/migrationproxy";

/// Migrates `vmi` from the pod with the parameters of KubeVirt's launcher, and `extra` arguments of `virsh migrate`.
/// Fails with virsh's message.
pub async fn migrate(source: &Pod, vmi: &Vmi, extra: &[&str]) -> Result<()> {
    let mode = driver_mode(source);
    let socket = source.libvirt_socket();
    let uid = vmi.uid();
    let mut command = Command::new("virsh");
    command
        .args([
            "-c",
            &format!("qemu+unix:///{mode}?socket={}", socket.display()),
        ])
        .args(["migrate", "--live", "--p2p", "--persistent"])
        .args([
            "--migrateuri",
            &format!("unix://{PROXIES}/{uid}-49152-source.sock"),
        ])
        .args(extra)
        .arg(vmi.domain())
        .arg(format!(
            "qemu+unix:///{mode}?socket={PROXIES}/{uid}-source.sock"
        ))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(MIGRATION_TIMEOUT, command.output());
    let output = output.await.context("virsh migrate takes too long")?;
    let output = output.context("virsh (package libvirt-clients)")?;
    ensure!(
        output.status.success(),
        "virsh migrate: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
