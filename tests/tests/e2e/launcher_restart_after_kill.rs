//! A launcher is killed while it prepares disks. The next launcher in the same pod must boot the VM.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::json;
use tests::guest_image::{CONTAINER_DISK_MARK, Guest};
use tests::launcher_fixture::{BOOT_TIMEOUT, EVENT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::pod::{LauncherUser, QEMU_UID};
use tests::vmi_builder::Vmi;

/// A script in place of qemu-img. If its command line contains the text in `/run/holding/at`, it writes a part of the
/// output, creates `/run/holding/held`, and waits until `at` is removed.
const BLOCKING_QEMU_IMG: &str = r#"#!/bin/sh
at=$(cat /run/holding/at 2>/dev/null)
case " $* " in
*"${at:-no such word}"*)
    for argument; do
        case $argument in *.part) head -c 1000 /dev/zero >"$argument" ;; esac
    done
    [ "$1" != resize ] || truncate -s 12M /run/kubevirt-private/vmi-disks/data/disk.img
    : >/run/holding/held
    while [ -e /run/holding/at ]; do sleep 0.05; done
    ;;
esac
exec /usr/bin/qemu-img "$@"
"#;
const BLOCK_DIRECTORY: &str = "/run/holding";
const CLAIM_DIRECTORY: &str = "/run/kubevirt-private/vmi-disks/data";
const OVERLAY_PATH: &str = "/run/kubevirt-ephemeral-disks/disk-data/image/disk.qcow2";
const EMPTY_DISK_PATH: &str = "/run/libvirt/empty-disks/scratch.qcow2";
const CONFIG_DISK_PATH: &str = "/run/kubevirt-private/config-map-disks/settings.iso";
const CLOUD_INIT_PATH: &str =
    "/run/kubevirt-ephemeral-disks/cloud-init-data/default/resumed/noCloud.iso";
/// The file size limit in bytes at which the kernel kills the launcher: smaller than any config disk.
const FILE_SIZE_LIMIT: u64 = 512 * 1024;
const MIB: u64 = 1024 * 1024;

/// A VMI with one volume of each kind for which the launcher creates files. They become `vda`, `vdb`, ... in this
/// order.
fn vmi() -> Vmi {
    let claim = json!({ "hostDisk": {
        "path": format!("{CLAIM_DIRECTORY}/disk.img"), "type": "DiskOrCreate", "capacity": "24Mi",
    } });
    Vmi::new("resumed", LauncherUser::Nonroot)
        .container_disk("image")
        .empty_disk("scratch", "48Mi")
        .volume("settings", json!({ "configMap": { "name": "x" } }))
        .volume("data", claim)
        .cloud_init("#cloud-config\nhostname: resumed\n")
        .edit(|vmi| {
            let names = ["image", "scratch", "settings", "cloudinit", "data"];
            let mut volumes = names.map(|name| json!({ "name": name, "target": "" }));
            volumes[4]["persistentVolumeClaimInfo"] = json!({
                "filesystemOverhead": "0", "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
                "capacity": { "storage": "24Mi" }, "requests": { "storage": "24Mi" },
            });
            vmi["status"]["volumeStatus"] = json!(volumes);
        })
}

fn prepare_pod() -> Result<PreparedPod> {
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let path = |path_in_pod: &str| prepared.pod.path(path_in_pod);
    Guest::prepare()?.install_container_disk(&path("/run/kubevirt/container-disks"), 0)?;
    let settings = path("/run/kubevirt-private/config-map/settings");
    fs::create_dir_all(&settings)?;
    fs::write(settings.join("app.conf"), "colour=blue\n")?;
    let claim = path(CLAIM_DIRECTORY);
    fs::create_dir_all(&claim)?;
    fs::write(claim.join("disk.img"), "THE-DATA")?;
    resize(&claim.join("disk.img"), 8 * MIB)?;
    for path in [&claim, &claim.join("disk.img")] {
        chown(path, Some(QEMU_UID), Some(QEMU_UID))?;
    }
    fs::create_dir(path(BLOCK_DIRECTORY))?;
    fs::set_permissions(path(BLOCK_DIRECTORY), fs::Permissions::from_mode(0o777))?;
    prepared
        .pod
        .replace_program("qemu-img", BLOCKING_QEMU_IMG)?;
    Ok(prepared)
}

fn resize(image: &Path, bytes: u64) -> Result<()> {
    Ok(fs::File::options()
        .write(true)
        .open(image)?
        .set_len(bytes)?)
}

/// A launcher that is interrupted while it prepares disks.
struct InterruptedLauncher {
    fixture: LauncherFixture,
}

impl InterruptedLauncher {
    /// Starts a launcher and a sync. qemu-img blocks if its command line contains `argument`; without `argument`, the
    /// launcher's file size is limited.
    async fn start(
        prepared: PreparedPod,
        vmi: &Vmi,
        argument: Option<&str>,
    ) -> Result<InterruptedLauncher> {
        // Without the flag, the monitor would remove what the launcher leaves.
        let fixture = prepared.start(vmi, &["--keep-after-failure"]).await?;
        if let Some(argument) = argument {
            fs::write(fixture.pod.path(BLOCK_DIRECTORY).join("at"), argument)?;
        }
        let launcher = InterruptedLauncher { fixture };
        if argument.is_none() {
            launcher.limit_files()?;
        }
        let (commands, vmi) = (launcher.fixture.commands.clone(), vmi.clone());
        tokio::spawn(async move { commands.sync(&vmi).await });
        if argument.is_some() {
            let blocked = launcher.fixture.pod.path(BLOCK_DIRECTORY).join("held");
            let is_blocked = async || fs::remove_file(&blocked).ok();
            tests::wait_until("qemu-img to be held", EVENT_TIMEOUT, is_blocked).await?;
        }
        Ok(launcher)
    }

    /// Limits the size of the launcher's files: the kernel kills the launcher when it writes beyond the limit.
    fn limit_files(&self) -> Result<()> {
        let launcher = self.fixture.pod.process("virt-launcher");
        let pid = launcher.context("a launcher")?.pid.as_raw_nonzero();
        // prlimit runs as the launcher's user, since even root needs a capability to change another user's limits.
        let status = Command::new("setpriv")
            .args(["--reuid=107", "--regid=107", "--clear-groups", "prlimit"])
            .args([
                format!("--pid={pid}"),
                format!("--fsize={FILE_SIZE_LIMIT}:{FILE_SIZE_LIMIT}"),
            ])
            .status()?;
        ensure!(status.success(), "prlimit: {status}");
        Ok(())
    }

    /// Lets qemu-img continue.
    fn release(&self) -> Result<()> {
        Ok(fs::remove_file(
            self.fixture.pod.path(BLOCK_DIRECTORY).join("at"),
        )?)
    }

    fn kill(&self) -> Result<()> {
        let launcher = self.fixture.pod.process("virt-launcher");
        launcher.context("a launcher")?.kill()
    }

    /// Waits for the launcher's exit, and kills the monitor, which keeps the container. It may not have noticed the exit, and
    /// would only pass SIGTERM on.
    async fn after_exit(self) -> Result<PreparedPod> {
        let has_ended = async || {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let launcher = self.fixture.pod.process("virt-launcher");
            launcher.is_none().then_some(())
        };
        tests::wait_until("the launcher's end", EVENT_TIMEOUT, has_ended).await?;
        self.fixture.pod.signal(Signal::KILL)?;
        self.fixture.after_exit().await
    }

    /// Waits for the launcher's exit, and checks that `file` only exists under its temporary name and is incomplete.
    /// The next launcher finds all incomplete files so old that nobody can be writing to them.
    async fn check_incomplete_file(self, file: &str) -> Result<PreparedPod> {
        let prepared = self.after_exit().await?;
        let target = prepared.pod.path(file);
        ensure!(!target.exists(), "{file} is there");
        let partial_files = partial_files(target.parent().unwrap_or(&target));
        ensure!(
            partial_files.len() == 1,
            "{file} was not being made: {partial_files:?}"
        );
        let bytes = fs::metadata(&partial_files[0])?.len();
        ensure!(bytes <= FILE_SIZE_LIMIT, "{bytes} bytes of {file}");
        for file in self::partial_files(&prepared.pod.path("/run")) {
            let file = fs::File::options().write(true).open(file)?;
            file.set_modified(SystemTime::UNIX_EPOCH)?;
        }
        let _ = fs::remove_file(prepared.pod.path(BLOCK_DIRECTORY).join("at"));
        Ok(prepared)
    }
}

/// All `.part` files below a directory.
fn partial_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.flat_map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => partial_files(&entry.path()),
        _ => vec![entry.path()],
    });
    paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "part"))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_launcher_boots_after_one_was_killed_during_preparation() -> Result<()> {
    let vmi = vmi();
    // The launcher writes config disks itself, without qemu-img.
    let launcher = InterruptedLauncher::start(prepare_pod()?, &vmi, None).await?;
    let mut prepared = launcher.check_incomplete_file(CONFIG_DISK_PATH).await?;
    for (argument, file) in [
        ("disk-data", OVERLAY_PATH),
        ("empty-disks", EMPTY_DISK_PATH),
    ] {
        let _ = fs::remove_file(prepared.pod.path(file));
        let launcher = InterruptedLauncher::start(prepared, &vmi, Some(argument)).await?;
        launcher.kill()?;
        prepared = launcher.check_incomplete_file(file).await?;
    }
    // A claim's image is resized in place: it has an intermediate size, and its data must be intact.
    let launcher = InterruptedLauncher::start(prepared, &vmi, Some(" resize ")).await?;
    launcher.kill()?;
    prepared = launcher.after_exit().await?;
    let image = prepared.pod.path(CLAIM_DIRECTORY).join("disk.img");
    assert_eq!(fs::metadata(&image)?.len(), 12 * MIB);
    // The cloud-init image is written after the domain is defined.
    let launcher = InterruptedLauncher::start(prepared, &vmi, Some(" resize ")).await?;
    launcher.limit_files()?;
    launcher.release()?;
    prepared = launcher.check_incomplete_file(CLOUD_INIT_PATH).await?;
    assert!(
        prepared.pod.log().contains("domain defined"),
        "{}",
        prepared.pod.log()
    );
    boot_and_check_files(prepared, &vmi).await
}

/// Boots the VM, and checks that all files are complete and no `.part` file is left.
async fn boot_and_check_files(prepared: PreparedPod, vmi: &Vmi) -> Result<()> {
    let fixture = prepared.start(vmi, &[]).await?;
    let before = fixture.pod.console(vmi).boots();
    fixture.boot(vmi).await?;
    let reports = fixture
        .pod
        .console(vmi)
        .wait_for_boots(before + 1, BOOT_TIMEOUT)
        .await?;
    for (disk, bytes, mark) in [
        ("vda", 16 * MIB, CONTAINER_DISK_MARK),
        ("vdb", 48 * MIB, ""),
        ("vdc", MIB, "label=cfgdata"),
        ("vdd", 24 * MIB, "THE-DATA"),
        ("vde", MIB, "label=cidata"),
    ] {
        let start = format!("disk {disk}: bytes={bytes} ");
        let mut matching = reports.iter().filter(|report| report.starts_with(&start));
        assert!(
            matching.any(|report| report.contains(mark)),
            "{disk} in {reports:#?}"
        );
    }
    assert!(
        reports
            .iter()
            .any(|report| report.trim_end() == "user-data: hostname: resumed")
    );
    let remaining = partial_files(&fixture.pod.path("/run"));
    assert!(remaining.is_empty(), "{remaining:?}");
    fixture.end_vm(vmi).await
}
