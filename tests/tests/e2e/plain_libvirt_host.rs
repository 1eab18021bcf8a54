//! Modules as libvirt's hook on a machine without KubeVirt: a restored domain has their change.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use tests::binaries::binary;
use tests::build_and_install_hooks as hooks;
use tests::pod::{LauncherUser, Pod};

use super::daemon_only_pod::DaemonOnlyPod;

/// SeaBIOS runs for ever on it: there is nothing to boot.
const DOMAIN: &str = "<domain type='qemu'>
  <name>plain</name>
  <memory unit='MiB'>32</memory>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='writeback'/>
      <source file='/var/run/kubevirt-ephemeral-disks/disk.img'/>
      <target dev='vda' bus='virtio'/>
    </disk>
  </devices>
</domain>";

/// In the pod, where QEMU's user can read and write.
const DISK: &str = "/var/run/kubevirt-ephemeral-disks/disk.img";
const IMAGE: &str = "/var/run/kubevirt-ephemeral-disks/saved";

/// A pod whose libvirt has this program as a hook, with one module compiled ahead.
fn prepare(directory: &Path, arguments: &str) -> Result<Pod> {
    let program = binary("virt-hook")?;
    let (modules, artifacts) = (directory.join("hooks"), directory.join("artifacts"));
    hooks::install(
        &modules,
        "disk-tuning",
        &hooks::example("disk-tuning-hook")?,
    )?;
    let compiled = Command::new(&program)
        .args(["compile", "--into"])
        .args([&artifacts, &modules])
        .output()?;
    ensure!(compiled.status.success(), "{compiled:?}");
    let pod = Pod::create(LauncherUser::Root)?;
    let scripts = pod.path("/etc/libvirt/hooks/qemu.d");
    fs::create_dir_all(&scripts)?;
    pod.disable_virtlogd()?;
    fs::File::create(pod.path(DISK))?.set_len(1 << 20)?;
    let script = scripts.join("50-virt-hook");
    let text = format!(
        "#!/bin/sh\nexec {} libvirt-hook --hooks {} --hook-artifacts {} {arguments} -- \"$@\"\n",
        program.display(),
        modules.display(),
        artifacts.display()
    );
    fs::write(&script, text)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Ok(pod)
}

/// A domain that was saved, in a libvirt with the hook.
async fn saved(directory: &Path, arguments: &str) -> Result<DaemonOnlyPod> {
    let daemon = DaemonOnlyPod::start_in(prepare(directory, arguments)?).await?;
    let xml = directory.join("domain.xml");
    fs::write(&xml, DOMAIN)?;
    daemon.ask(&["create", &xml.to_string_lossy()])?;
    daemon.ask(&["save", "plain", IMAGE])?;
    Ok(daemon)
}

/// Beside the program: artifacts must be on its mount.
fn directory() -> Result<tempfile::TempDir> {
    let program = binary("virt-hook")?;
    let beside = program.parent().unwrap_or(Path::new("/"));
    Ok(tempfile::tempdir_in(beside)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_domain_has_the_change_of_a_module() -> Result<()> {
    let directory = directory()?;
    let cache = "--annotation disk-tuning.example.com/cache=none";
    let daemon = saved(directory.path(), cache).await?;
    daemon.ask(&["restore", IMAGE])?;
    let xml = daemon.ask(&["dumpxml", "plain"])?;
    ensure!(xml.contains("cache='none'"), "{xml}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn module_that_fails_keeps_the_domain_saved() -> Result<()> {
    let directory = directory()?;
    let queues = "--annotation disk-tuning.example.com/queues=many";
    let daemon = saved(directory.path(), queues).await?;
    let restored = daemon.virsh(Stdio::null(), &["restore", IMAGE])?;
    let errors = String::from_utf8_lossy(&restored.stderr).into_owned();
    ensure!(
        !restored.status.success() && errors.contains("disk-tuning"),
        "{errors}"
    );
    ensure!(
        !daemon.ask(&["list", "--name"])?.contains("plain"),
        "the domain runs"
    );
    ensure!(daemon.path(IMAGE).exists(), "the image is gone");
    Ok(())
}
