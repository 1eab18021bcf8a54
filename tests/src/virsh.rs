//! `virsh` against the libvirt in a pod: XML, domains, the statistics of migrations, and QEMU's monitor.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use crate::pod::{LauncherUser, Pod};
use crate::vmi_builder::Vmi;

/// The persistent definition of `vmi` in the pod's libvirt, which the next start uses.
pub async fn inactive_xml(pod: &Pod, vmi: &Vmi) -> Result<String> {
    virsh(pod, &["dumpxml", "--inactive", &vmi.domain()]).await
}

/// The running domain of `vmi` as libvirt sends it to a migration's target.
pub async fn migratable_xml(pod: &Pod, vmi: &Vmi) -> Result<String> {
    virsh(pod, &["dumpxml", "--migratable", &vmi.domain()]).await
}

/// The names of all domains in the pod's libvirt.
pub async fn defined_domains(pod: &Pod) -> Result<Vec<String>> {
    let names = virsh(pod, &["list", "--all", "--name"]).await?;
    let names = names.lines().map(str::trim).filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

/// libvirt's statistics of a migration that has ended.
#[derive(Clone, Copy, Debug)]
pub struct CompletedJob {
    /// How long the guest was stopped, in milliseconds.
    pub downtime: u64,
    /// The duration of libvirt's migration call, in milliseconds.
    pub elapsed: u64,
}

/// The statistics of the last migration of `vmi` in the pod's libvirt.
pub async fn completed_job(pod: &Pod, vmi: &Vmi) -> Result<CompletedJob> {
    let domain = vmi.domain();
    let text = virsh(
        pod,
        &["domjobinfo", "--completed", "--keep-completed", &domain],
    )
    .await?;
    let figure = |title: &str| -> Result<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(title));
        let word = line.and_then(|line| line.split_whitespace().next());
        let word = word.with_context(|| format!("virsh domjobinfo has no {title} {text}"))?;
        Ok(word.parse()?)
    };
    Ok(CompletedJob {
        downtime: figure("Total downtime:")?,
        elapsed: figure("Time elapsed:")?,
    })
}

/// Runs virsh against the pod's libvirt and returns its output.
async fn virsh(pod: &Pod, arguments: &[&str]) -> Result<String> {
    let (mode, socket) = (driver_mode(pod), pod.libvirt_socket());
    let uri = format!("qemu+unix:///{mode}?socket={}", socket.display());
    let output = Command::new("virsh")
        .args(["-c", &uri])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .await
        .context("virsh (package libvirt-clients)")?;
    ensure!(
        output.status.success(),
        "virsh {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// QEMU's answer to a monitor command.
pub async fn qemu_command(pod: &Pod, vmi: &Vmi, command: &str) -> Result<Value> {
    let answer = virsh(pod, &["qemu-monitor-command", &vmi.domain(), command]).await?;
    Ok(serde_json::from_str(&answer)?)
}

/// The driver mode in the libvirt URI.
pub(crate) fn driver_mode(pod: &Pod) -> &'static str {
    match pod.user() {
        LauncherUser::Root => "system",
        LauncherUser::Nonroot => "session",
    }
}
