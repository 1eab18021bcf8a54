//! KubeVirt's own programs with this launcher: `virt-probe` and `virt-freezer`, which stay in the launcher's image, use
//! the command socket. `libvirt-hook-client`, which `virt-hook` replaces in the image, uses the server for libvirt's
//! hook.

use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tests::launcher_fixture::{BOOT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::pod::{LauncherUser, QEMU_UID};
use tests::vmi_builder::Vmi;

use super::migration_libvirt_hook::{Clusters, check_edit_through_hook};

const PVC_DIR: &str = "/run/kubevirt-private/vmi-disks/data";

/// The directory with KubeVirt's programs.
fn programs() -> Result<PathBuf> {
    let directory = std::env::var_os("KUBEVIRT_PROGRAMS");
    directory.map(PathBuf::from).context(
        "KUBEVIRT_PROGRAMS=DIR names a directory with KubeVirt's virt-probe, virt-freezer and libvirt-hook-client",
    )
}

/// Runs a program in the pod's container.
fn run(fixture: &LauncherFixture, program: &str, arguments: &[&str]) -> Result<Output> {
    let init = fixture.pod.processes().into_iter().next();
    let pid = init.context("the pod has no process")?.pid.as_raw_nonzero();
    let output = Command::new("nsenter")
        .args([
            "--target",
            &pid.to_string(),
            "--mount",
            "--",
            "timeout",
            "60",
        ])
        .arg(programs()?.join(program))
        .args(arguments)
        .output()
        .context("nsenter (package util-linux)")?;
    Ok(output)
}

/// Runs a program that must succeed, and returns its output.
fn succeed(fixture: &LauncherFixture, program: &str, arguments: &[&str]) -> Result<String> {
    let output = run(fixture, program, arguments)?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    ensure!(
        output.status.success(),
        "{program} {arguments:?}: {}: {text}",
        output.status
    );
    Ok(text)
}

/// Boots a guest with a disk whose file system can be frozen.
async fn boot_with_data_disk() -> Result<(LauncherFixture, Vmi)> {
    let disk = json!({ "hostDisk": { "path": format!("{PVC_DIR}/disk.img"), "type": "Disk" } });
    let vmi = Vmi::new("probed", LauncherUser::Nonroot).volume("data", disk);
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let claim = prepared.pod.path(PVC_DIR);
    fs::create_dir_all(&claim)?;
    let disk = claim.join("disk.img");
    File::create(&disk)?.set_len(32 << 20)?;
    let mut make = Command::new("mkfs.ext4");
    make.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    ensure!(
        make.args(["-q", "-F"]).arg(&disk).status()?.success(),
        "mkfs.ext4"
    );
    for path in [&claim, &disk] {
        chown(path, Some(QEMU_UID), Some(QEMU_UID))?;
    }
    let fixture = prepared.start(&vmi, &[]).await?;
    fixture.boot_without_controller(&vmi).await?;
    fixture.wait_for_agent(&vmi).await?;
    let script = "modprobe ext4; mkdir -p /mnt/data; mount /dev/vda /mnt/data";
    let mounted = fixture.commands.exec(&vmi, "sh", &["-c", script]).await?;
    ensure!(mounted.exit_code == 0, "{mounted:?}");
    Ok((fixture, vmi))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "KubeVirt's programs come from its own build: make test-kubevirt-programs"]
async fn virt_probe_and_virt_freezer_work_with_this_launcher() -> Result<()> {
    let (fixture, vmi) = boot_with_data_disk().await?;
    let socket = "/run/kubevirt/sockets/launcher-sock";
    let domain = vmi.domain();
    let probe = [
        "--socket",
        socket,
        "--domainName",
        domain.as_str(),
        "--timeoutSeconds",
        "30",
    ];

    succeed(
        &fixture,
        "virt-probe",
        &[&probe[..], &["--guestAgentPing"]].concat(),
    )?;
    let output = succeed(
        &fixture,
        "virt-probe",
        &[&probe[..], &["--command", "echo", "--", "probed"]].concat(),
    )?;
    ensure!(output.contains("probed"), "{output}");
    let failed = run(
        &fixture,
        "virt-probe",
        &[&probe[..], &["--command", "false"]].concat(),
    )?;
    ensure!(
        failed.status.code() == Some(1),
        "the exit code of the guest's command: {failed:?}"
    );

    let name = ["--name", vmi.name(), "--namespace", "default"];
    let status = async |expected: &str| {
        let is = |event: &tests::emulated_virt_handler::Event| {
            event.domain()["Status"]["FSFreezeStatus"]["Status"] == expected
        };
        fixture
            .handler
            .wait_for(expected, 0, BOOT_TIMEOUT, is)
            .await
    };
    succeed(
        &fixture,
        "virt-freezer",
        &[&["--freeze"], &name[..]].concat(),
    )?;
    status("frozen").await?;
    succeed(
        &fixture,
        "virt-freezer",
        &[&["--unfreeze"], &name[..]].concat(),
    )?;
    status("thawed").await?;
    fixture.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "KubeVirt's programs come from its own build: make test-kubevirt-programs"]
async fn libvirt_hook_client_passes_the_edited_domain() -> Result<()> {
    check_edit_through_hook(&programs()?.join("libvirt-hook-client")).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "KubeVirt's programs come from its own build: make test-kubevirt-programs"]
async fn libvirt_hook_client_passes_a_refusal_without_its_reason() -> Result<()> {
    let annotation = (
        "smbios.vm.kubevirt.io/baseBoardManufacturer",
        "Radical Edward",
    );
    let client = programs()?.join("libvirt-hook-client");
    let clusters = Clusters::prepare(&client, "smbios-hook", annotation).await?;
    let reason = clusters.migrate().await?;
    ensure!(reason.contains("Hook script execution failed"), "{reason}");
    let Clusters { source, pods, .. } = clusters;
    ensure!(
        pods.target.pod.log().contains("hook-sidecar-0"),
        "the target's log has the reason"
    );
    pods.source.wait_for_agent(&source).await?;
    pods.source.end_vm(&source).await
}
