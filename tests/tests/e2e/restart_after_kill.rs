//! A launcher is killed while it prepares disks; the next launcher in the same pod must boot the VM.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tests::guest_image::{CONTAINER_DISK_MARK, Guest};
use tests::launcher_fixture::{BOOT, EVENT, LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

/// Replaces qemu-img. If `/run/holding/at` has a word of its command line, it writes half of the output, creates
/// `held`, and waits until `at` is removed.
const HOLDING: &str = r#"#!/bin/sh
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
const HOLD: &str = "/run/holding";
const CLAIM: &str = "/run/kubevirt-private/vmi-disks/data";
const OVERLAY: &str = "/run/kubevirt-ephemeral-disks/disk-data/image/disk.qcow2";
const EMPTY: &str = "/run/libvirt/empty-disks/scratch.qcow2";
const SETTINGS: &str = "/run/kubevirt-private/config-map-disks/settings.iso";
const CLOUD_INIT: &str =
    "/run/kubevirt-ephemeral-disks/cloud-init-data/default/resumed/noCloud.iso";
/// Smaller than any config disk.
const HALF: u64 = 512 * 1024;
const MIB: u64 = 1024 * 1024;
const QEMU: u32 = 107;

/// One volume of each kind that the launcher creates, in the order of `vda`, `vdb`, ...
fn vmi() -> Vmi {
    let claim = json!({ "hostDisk": {
        "path": format!("{CLAIM}/disk.img"), "type": "DiskOrCreate", "capacity": "24Mi",
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

fn set() -> Result<PreparedPod> {
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let path = |path_in_pod: &str| prepared.pod.path(path_in_pod);
    Guest::prepare()?.install_container_disk(&path("/run/kubevirt/container-disks"), 0)?;
    let settings = path("/run/kubevirt-private/config-map/settings");
    fs::create_dir_all(&settings)?;
    fs::write(settings.join("app.conf"), "colour=blue\n")?;
    let claim = path(CLAIM);
    fs::create_dir_all(&claim)?;
    fs::write(claim.join("disk.img"), "THE-DATA")?;
    resize(&claim.join("disk.img"), 8 * MIB)?;
    for mine in [&claim, &claim.join("disk.img")] {
        chown(mine, Some(QEMU), Some(QEMU))?;
    }
    fs::create_dir(path(HOLD))?;
    fs::set_permissions(path(HOLD), fs::Permissions::from_mode(0o777))?;
    prepared.pod.replace_program("qemu-img", HOLDING)?;
    Ok(prepared)
}

fn resize(image: &Path, bytes: u64) -> Result<()> {
    Ok(fs::File::options()
        .write(true)
        .open(image)?
        .set_len(bytes)?)
}

/// A launcher that is held during preparation.
struct Round {
    fixture: LauncherFixture,
}

impl Round {
    /// Starts a launcher and a sync. qemu-img is held at the command line that contains `at`.
    async fn begin(prepared: PreparedPod, vmi: &Vmi, at: Option<&str>) -> Result<Round> {
        let fixture = prepared.start(vmi, &[]).await?;
        if let Some(at) = at {
            fs::write(fixture.pod.path(HOLD).join("at"), at)?;
        }
        let round = Round { fixture };
        if at.is_none() {
            round.limit_files()?;
        }
        let (commands, vmi) = (round.fixture.commands.clone(), vmi.clone());
        tokio::spawn(async move { commands.sync(&vmi).await });
        if at.is_some() {
            let held = round.fixture.pod.path(HOLD).join("held");
            let is_held = async || fs::remove_file(&held).ok();
            tests::until("qemu-img to be held", EVENT, is_held).await?;
        }
        Ok(round)
    }

    /// Limits the launcher's files to half an image: the kernel kills it on the write beyond that.
    fn limit_files(&self) -> Result<()> {
        let launcher = self.fixture.pod.process("virt-launcher");
        let pid = launcher.context("a launcher")?.pid.as_raw_nonzero();
        // As the launcher's own user: even root needs a capability to change another user's limits.
        let done = Command::new("setpriv")
            .args(["--reuid=107", "--regid=107", "--clear-groups", "prlimit"])
            .args([format!("--pid={pid}"), format!("--fsize={HALF}:{HALF}")])
            .status()?;
        ensure!(done.success(), "prlimit: {done}");
        Ok(())
    }

    fn release(&self) -> Result<()> {
        Ok(fs::remove_file(self.fixture.pod.path(HOLD).join("at"))?)
    }

    fn kill(&self) -> Result<()> {
        let launcher = self.fixture.pod.process("virt-launcher");
        launcher.context("a launcher")?.kill()
    }

    /// Kills the launcher. Checks that the file `made` is incomplete, under its temporary name only.
    async fn end(self, made: &str) -> Result<PreparedPod> {
        let prepared = self.fixture.after_exit().await?;
        let target = prepared.pod.path(made);
        ensure!(!target.exists(), "{made} is there");
        let parts = parts(target.parent().unwrap_or(&target));
        ensure!(parts.len() == 1, "{made} was not being made: {parts:?}");
        let bytes = fs::metadata(&parts[0])?.len();
        ensure!(bytes <= HALF, "{bytes} bytes of {made}");
        let _ = fs::remove_file(prepared.pod.path(HOLD).join("at"));
        Ok(prepared)
    }
}

/// All `.part` files below a directory.
fn parts(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let below = entries.flat_map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => parts(&entry.path()),
        _ => vec![entry.path()],
    });
    below
        .filter(|path| path.extension().is_some_and(|ending| ending == "part"))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_launcher_boots_after_one_was_killed_during_preparation() -> Result<()> {
    let vmi = vmi();
    // The launcher writes config disks itself, without qemu-img.
    let round = Round::begin(set()?, &vmi, None).await?;
    let mut prepared = round.end(SETTINGS).await?;
    for (at, made) in [("disk-data", OVERLAY), ("empty-disks", EMPTY)] {
        let _ = fs::remove_file(prepared.pod.path(made));
        let round = Round::begin(prepared, &vmi, Some(at)).await?;
        round.kill()?;
        prepared = round.end(made).await?;
    }
    // A claim's image is resized in place: it is half grown, and its data must be intact.
    let round = Round::begin(prepared, &vmi, Some(" resize ")).await?;
    round.kill()?;
    prepared = round.fixture.after_exit().await?;
    let image = prepared.pod.path(CLAIM).join("disk.img");
    assert_eq!(fs::metadata(&image)?.len(), 12 * MIB);
    // The cloud-init image is written after the domain is defined.
    let round = Round::begin(prepared, &vmi, Some(" resize ")).await?;
    round.limit_files()?;
    round.release()?;
    prepared = round.end(CLOUD_INIT).await?;
    assert!(
        prepared.pod.log().contains("domain defined"),
        "{}",
        prepared.pod.log()
    );
    boot_and_check_files(prepared, &vmi).await
}

/// Boots, and checks that all files are complete and no `.part` file is left.
async fn boot_and_check_files(prepared: PreparedPod, vmi: &Vmi) -> Result<()> {
    let fixture = prepared.start(vmi, &[]).await?;
    let before = fixture.pod.console(vmi).boots();
    fixture.boot(vmi).await?;
    let reports = fixture
        .pod
        .console(vmi)
        .wait_for_boots(before + 1, BOOT)
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
    let left = parts(&fixture.pod.path("/run"));
    assert!(left.is_empty(), "{left:?}");
    fixture.end_vm(vmi).await
}
