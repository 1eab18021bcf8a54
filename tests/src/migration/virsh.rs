//! libvirt's own client, which migrates a VM without the source's launcher.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::MIGRATION;
use crate::pod::{Pod, User};
use crate::vmi_builder::Vmi;

const PROXIES: &str = "/var/run/kubevirt/migrationproxy";

/// The definition of `vmi` in the pod's libvirt, as it will be at the next start.
pub async fn inactive_xml(pod: &Pod, vmi: &Vmi) -> Result<String> {
    let mode = mode(pod);
    let socket = pod.libvirt_socket();
    let output = Command::new("virsh")
        .args([
            "-c",
            &format!("qemu+unix:///{mode}?socket={}", socket.display()),
        ])
        .args(["dumpxml", "--inactive", &vmi.domain()])
        .stdin(Stdio::null())
        .output()
        .await?;
    ensure!(
        output.status.success(),
        "virsh dumpxml: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn mode(pod: &Pod) -> &'static str {
    match pod.user() {
        User::Root => "system",
        User::Nonroot => "session",
    }
}

/// Migrates `vmi` from the pod with the parameters of KubeVirt's launcher, `extra` being further arguments of
/// `virsh migrate`. Fails with virsh's message.
pub async fn migrate(source: &Pod, vmi: &Vmi, extra: &[&str]) -> Result<()> {
    let mode = mode(source);
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
    let output = tokio::time::timeout(MIGRATION, command.output());
    let output = output.await.context("virsh migrate takes too long")?;
    let output = output.context("virsh (package libvirt-clients)")?;
    ensure!(
        output.status.success(),
        "virsh migrate: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
