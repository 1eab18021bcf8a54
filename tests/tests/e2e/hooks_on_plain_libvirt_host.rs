//! Hook modules in libvirt's hook on a machine without KubeVirt: a restored domain has their changes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use tests::binaries::binary;
use tests::build_and_install_hooks as hooks;
use tests::pod::{LauncherUser, Pod};

use super::libvirt_daemon_only_pod::DaemonOnlyPod;

/// A domain in which SeaBIOS runs forever, because there is nothing to boot.
const DOMAIN_XML: &str = "<domain type='qemu'>
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

/// The path of the disk, where QEMU's user can read and write.
const DISK_PATH: &str = "/var/run/kubevirt-ephemeral-disks/disk.img";
const SAVED_IMAGE: &str = "/var/run/kubevirt-ephemeral-disks/saved";

/// A pod whose libvirt has `virt-hook` as a hook, with one precompiled module.
fn prepare_pod(directory: &Path, arguments: &str) -> Result<Pod> {
    let program = binary("virt-hook")?;
    let (modules, artifacts) = (directory.join("hooks"), directory.join("artifacts"));
    hooks::install(
        &modules,
        "disk-tuning",
        &hooks::example("disk-tuning-hook")?,
    )?;
    let output = Command::new(&program)
        .args(["compile", "--into"])
        .args([&artifacts, &modules])
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    let pod = Pod::create(LauncherUser::Root)?;
    let scripts = pod.path("/etc/libvirt/hooks/qemu.d");
    fs::create_dir_all(&scripts)?;
    pod.disable_virtlogd()?;
    fs::File::create(pod.path(DISK_PATH))?.set_len(1 << 20)?;
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

/// Saves a domain in a libvirt with the hook.
async fn save_domain(directory: &Path, arguments: &str) -> Result<DaemonOnlyPod> {
    let daemon = DaemonOnlyPod::start_in(prepare_pod(directory, arguments)?).await?;
    let xml = directory.join("domain.xml");
    fs::write(&xml, DOMAIN_XML)?;
    daemon.virsh_output(&["create", &xml.to_string_lossy()])?;
    daemon.virsh_output(&["save", "plain", SAVED_IMAGE])?;
    Ok(daemon)
}

/// A temporary directory on the mount of `virt-hook`, where artifacts must be.
fn directory() -> Result<tempfile::TempDir> {
    let program = binary("virt-hook")?;
    let program_directory = program.parent().unwrap_or(Path::new("/"));
    Ok(tempfile::tempdir_in(program_directory)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_domain_has_the_change_of_a_module() -> Result<()> {
    let directory = directory()?;
    let cache = "--annotation disk-tuning.example.com/cache=none";
    let daemon = save_domain(directory.path(), cache).await?;
    daemon.virsh_output(&["restore", SAVED_IMAGE])?;
    let xml = daemon.virsh_output(&["dumpxml", "plain"])?;
    ensure!(xml.contains("cache='none'"), "{xml}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn module_that_fails_keeps_the_domain_saved() -> Result<()> {
    let directory = directory()?;
    let queues = "--annotation disk-tuning.example.com/queues=many";
    let daemon = save_domain(directory.path(), queues).await?;
    let output = daemon.virsh(Stdio::null(), &["restore", SAVED_IMAGE])?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        !output.status.success() && errors.contains("disk-tuning"),
        "{errors}"
    );
    ensure!(
        !daemon.virsh_output(&["list", "--name"])?.contains("plain"),
        "the domain runs"
    );
    ensure!(daemon.path(SAVED_IMAGE).exists(), "the image is gone");
    Ok(())
}
