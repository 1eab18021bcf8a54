//! A launcher that is killed half-way through preparation, and the next one in the same pod.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tests::guest::{CONTAINER_DISK_MARK, Guest};
use tests::pod::User;
use tests::scenario::{BOOT, EVENT, Scene, Stage};
use tests::vmi::Vmi;

/// Stands in for qemu-img. Told to hold at a word of its command line, it writes half of what it should,
/// says that it holds, and goes on once it is no longer told to.
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
/// Less than any image of configuration.
const HALF: u64 = 512 * 1024;
const MIB: u64 = 1024 * 1024;
const QEMU: u32 = 107;

/// Volumes of every kind that is made, in the order that gives them `vda`, `vdb`, ...
fn vmi() -> Vmi {
    let claim = json!({ "hostDisk": {
        "path": format!("{CLAIM}/disk.img"), "type": "DiskOrCreate", "capacity": "24Mi",
    } });
    Vmi::new("resumed", User::Nonroot)
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

fn set() -> Result<Stage> {
    let stage = Stage::set(User::Nonroot)?;
    let path = |place: &str| stage.pod.path(place);
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
    stage.pod.stand_in("qemu-img", HOLDING)?;
    Ok(stage)
}

fn resize(image: &Path, bytes: u64) -> Result<()> {
    Ok(fs::File::options()
        .write(true)
        .open(image)?
        .set_len(bytes)?)
}

/// A launcher that prepares, and where it is to die.
struct Round {
    scene: Scene,
}

impl Round {
    /// Starts a launcher and has it prepare; qemu-img is held where its command line says `at`.
    async fn begin(stage: Stage, vmi: &Vmi, at: Option<&str>) -> Result<Round> {
        let scene = stage.start(vmi, &[]).await?;
        if let Some(at) = at {
            fs::write(scene.pod.path(HOLD).join("at"), at)?;
        }
        let round = Round { scene };
        if at.is_none() {
            round.limit_files()?;
        }
        let (commands, vmi) = (round.scene.commands.clone(), vmi.clone());
        tokio::spawn(async move { commands.sync(&vmi).await });
        if at.is_some() {
            let held = round.scene.pod.path(HOLD).join("held");
            let is_held = async || fs::remove_file(&held).ok();
            tests::until("qemu-img to be held", EVENT, is_held).await?;
        }
        Ok(round)
    }

    /// No file of the launcher grows beyond half an image: it dies on the write that would make it.
    fn limit_files(&self) -> Result<()> {
        let launcher = self.scene.pod.process("virt-launcher");
        let pid = launcher.context("a launcher")?.pid.as_raw_nonzero();
        // As its own user: even root needs a capability to limit another's process.
        let done = Command::new("setpriv")
            .args(["--reuid=107", "--regid=107", "--clear-groups", "prlimit"])
            .args([format!("--pid={pid}"), format!("--fsize={HALF}:{HALF}")])
            .status()?;
        ensure!(done.success(), "prlimit: {done}");
        Ok(())
    }

    fn release(&self) -> Result<()> {
        Ok(fs::remove_file(self.scene.pod.path(HOLD).join("at"))?)
    }

    fn kill(&self) -> Result<()> {
        let launcher = self.scene.pod.process("virt-launcher");
        launcher.context("a launcher")?.kill()
    }

    /// Waits for the end; what was being made is half there under another name, and not under its own.
    async fn end(self, made: &str) -> Result<Stage> {
        let stage = self.scene.again().await?;
        let target = stage.pod.path(made);
        ensure!(!target.exists(), "{made} is there");
        let parts = parts(target.parent().unwrap_or(&target));
        ensure!(parts.len() == 1, "{made} was not being made: {parts:?}");
        let bytes = fs::metadata(&parts[0])?.len();
        ensure!(bytes <= HALF, "{bytes} bytes of {made}");
        let _ = fs::remove_file(stage.pod.path(HOLD).join("at"));
        Ok(stage)
    }
}

/// All parts below a directory.
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
async fn a_launcher_killed_half_way_through_preparation_is_followed_by_one_that_boots() -> Result<()>
{
    let vmi = vmi();
    // Images of configuration are this process's own work.
    let round = Round::begin(set()?, &vmi, None).await?;
    let mut stage = round.end(SETTINGS).await?;
    for (at, made) in [("disk-data", OVERLAY), ("empty-disks", EMPTY)] {
        let _ = fs::remove_file(stage.pod.path(made));
        let round = Round::begin(stage, &vmi, Some(at)).await?;
        round.kill()?;
        stage = round.end(made).await?;
    }
    // A claim's image that grows is never replaced: it is half grown, and its data are there.
    let round = Round::begin(stage, &vmi, Some(" resize ")).await?;
    round.kill()?;
    stage = round.scene.again().await?;
    let image = stage.pod.path(CLAIM).join("disk.img");
    assert_eq!(fs::metadata(&image)?.len(), 12 * MIB);
    // The cloud-init image is written when libvirt knows the domain already.
    let round = Round::begin(stage, &vmi, Some(" resize ")).await?;
    round.limit_files()?;
    round.release()?;
    stage = round.end(CLOUD_INIT).await?;
    assert!(
        stage.pod.log().contains("domain defined"),
        "{}",
        stage.pod.log()
    );
    boots(stage, &vmi).await
}

/// Everything is in place, whole, and nothing else.
async fn boots(stage: Stage, vmi: &Vmi) -> Result<()> {
    let scene = stage.start(vmi, &[]).await?;
    let before = scene.pod.console(vmi).boots();
    scene.boot(vmi).await?;
    let facts = scene.pod.console(vmi).ready(before + 1, BOOT).await?;
    for (disk, bytes, mark) in [
        ("vda", 16 * MIB, CONTAINER_DISK_MARK),
        ("vdb", 48 * MIB, ""),
        ("vdc", MIB, "label=cfgdata"),
        ("vdd", 24 * MIB, "THE-DATA"),
        ("vde", MIB, "label=cidata"),
    ] {
        let start = format!("disk {disk}: bytes={bytes} ");
        let mut told = facts.iter().filter(|fact| fact.starts_with(&start));
        assert!(told.any(|fact| fact.contains(mark)), "{disk} in {facts:#?}");
    }
    assert!(
        facts
            .iter()
            .any(|fact| fact.trim_end() == "user-data: hostname: resumed")
    );
    let left = parts(&scene.pod.path("/run"));
    assert!(left.is_empty(), "{left:?}");
    scene.close(vmi).await
}
