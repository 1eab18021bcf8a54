//! What the guest finds on the disks that are made of configuration.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tests::pod::User;
use tests::scenario::{EVENT, Scene, Stage};
use tests::vmi::Vmi;

const PRIVATE: &str = "/run/kubevirt-private";
const HOST_DISK: &str = "/run/kubevirt-private/vmi-disks/data/disk.img";
const IGNITION: &str = r#"{"ignition":{"version":"3.4.0"}}"#;

/// Files as the kubelet mounts them: links into a directory that a link swaps.
fn mount(stage: &Stage, place: &str, files: &[(&str, &str)]) -> Result<()> {
    let mount = stage.pod.path(place);
    let version = mount.join("..2026_11_21_16_41_05.2087931284");
    fs::create_dir_all(&version)?;
    symlink(
        version.file_name().unwrap_or_default(),
        mount.join("..data"),
    )?;
    for (name, content) in files {
        fs::write(version.join(name), content)?;
        symlink(Path::new("..data").join(name), mount.join(name))?;
    }
    Ok(())
}

/// One volume of each kind, in the order that gives them `vda`, `vdb`, ...
fn vmi(user: User) -> Vmi {
    let claim = json!({ "hostDisk": {
        "path": "/data/disk.img", "type": "DiskOrCreate", "capacity": "8Mi",
    } });
    Vmi::new("configured", user)
        .annotate("kubevirt.io/ignitiondata", IGNITION)
        .volume("settings", json!({ "configMap": { "name": "x", "volumeLabel": "settings" } }))
        .volume("keys", json!({ "secret": { "secretName": "x" } }))
        .volume("podinfo", json!({ "downwardAPI": { "fields": [] } }))
        .volume("account", json!({ "serviceAccount": { "serviceAccountName": "default" } }))
        .volume("unattend", json!({ "sysprep": { "configMap": { "name": "x" } } }))
        .volume("metrics", json!({ "downwardMetrics": {} }))
        .volume("data", claim)
        .edit(|vmi| {
            vmi["spec"]["domain"]["devices"]["downwardMetrics"] = json!({});
            let names = ["settings", "keys", "podinfo", "account", "unattend", "metrics", "data"];
            let mut volumes = names.map(|name| json!({ "name": name, "target": "" }));
            volumes[6]["persistentVolumeClaimInfo"] = json!({
                "filesystemOverhead": "0", "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
                "capacity": { "storage": "24Mi" }, "requests": { "storage": "24Mi" },
            });
            vmi["status"]["volumeStatus"] = json!(volumes);
        })
}

fn set(user: User) -> Result<Stage> {
    let stage = Stage::set(user)?;
    let below = |name: &str| format!("{PRIVATE}/{name}");
    mount(
        &stage,
        &below("config-map/settings"),
        &[("app.conf", "colour=blue\n")],
    )?;
    mount(&stage, &below("secret/keys"), &[("password", "hunter2")])?;
    mount(
        &stage,
        &below("downwardapi/podinfo"),
        &[("labels", "app=\"web\"")],
    )?;
    let account = "/run/secrets/kubernetes.io/serviceaccount";
    mount(
        &stage,
        account,
        &[("token", "ey.J"), ("namespace", "default")],
    )?;
    mount(
        &stage,
        &below("sysprep/unattend"),
        &[("Autounattend.xml", "<unattend/>")],
    )?;
    // A claim is mounted so that the pod's group may write.
    let claim = stage.pod.path(HOST_DISK);
    let directory = claim.parent().unwrap_or(&claim);
    fs::create_dir_all(directory)?;
    std::os::unix::fs::chown(directory, Some(107), Some(107))?;
    Ok(stage)
}

async fn shell(scene: &Scene, vmi: &Vmi, script: &str) -> Result<String> {
    let done = scene.commands.exec(vmi, "sh", &["-c", script]).await?;
    ensure!(done.exit_code == 0, "{script}: {done:?}");
    Ok(done.std_out)
}

/// The content of one file on one disk; `label` is what the guest's kernel is told to look for.
async fn file(scene: &Scene, vmi: &Vmi, disk: &str, name: &str) -> Result<String> {
    let script = format!(
        "mkdir -p /tmp/{disk}; mount -t iso9660 -o ro /dev/{disk} /tmp/{disk} || exit; cat /tmp/{disk}/{name}; umount /tmp/{disk}"
    );
    shell(scene, vmi, &script).await
}

fn has_label(facts: &[String], disk: &str, label: &str) -> bool {
    let start = format!("disk {disk}: ");
    facts
        .iter()
        .any(|fact| fact.starts_with(&start) && fact.contains(&format!(" label={label} ")))
}

async fn shows_everything(user: User) -> Result<()> {
    let vmi = vmi(user);
    let scene = set(user)?.start(&vmi, &[]).await?;
    let facts = scene.boot_to_ready(&vmi).await?;
    scene.agent(&vmi).await?;
    for (disk, label, name, content) in [
        ("vda", "settings", "app.conf", "colour=blue\n"),
        ("vda", "settings", "..data/app.conf", "colour=blue\n"),
        ("vdb", "cfgdata", "password", "hunter2"),
        ("vdc", "cfgdata", "labels", "app=\"web\""),
        ("vdd", "cfgdata", "token", "ey.J"),
        ("vdd", "cfgdata", "namespace", "default"),
        ("vde", "unattendCD", "Autounattend.xml", "<unattend/>"),
    ] {
        assert!(
            has_label(&facts, disk, label),
            "{disk} {label} in {facts:#?}"
        );
        assert_eq!(
            file(&scene, &vmi, disk, name).await?,
            content,
            "{disk} {name}"
        );
    }
    let metrics = shell(
        &scene,
        &vmi,
        "head -c 36 /dev/vdf | tail -c 20; cat /sys/block/vdf/size",
    )
    .await?;
    assert_eq!(metrics, "<metrics></metrics>\n512\n");
    // virt-handler serves the other way to read them, at the socket of this port.
    shell(
        &scene,
        &vmi,
        "[ -e /dev/virtio-ports/org.github.vhostmd.1 ]",
    )
    .await?;
    let socket = "downwardmetrics-channel/downwardmetrics.sock";
    ensure!(scene.pod.path(PRIVATE).join(socket).exists(), "no {socket}");
    let sectors = shell(&scene, &vmi, "cat /sys/block/vdg/size").await?;
    assert_eq!(
        sectors.trim(),
        "49152",
        "made with 8 MiB, grown to the claim's 24"
    );
    let made = fs::metadata(scene.pod.path(HOST_DISK))?;
    assert_eq!(made.len(), 24 << 20);
    check_ignition(&scene).await?;
    scene.close(&vmi).await
}

async fn check_ignition(scene: &Scene) -> Result<()> {
    let place = "/run/kubevirt-ephemeral-disks/ignition-data/default/configured/data.ign";
    assert_eq!(fs::read_to_string(scene.pod.path(place))?, IGNITION);
    // QEMU's own log is part of the pod's.
    let told = async || {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let told = "-fw_cfg name=opt/com.coreos/config,file=";
        scene.pod.log().contains(told).then_some(())
    };
    tests::until("QEMU to be handed the Ignition file", EVENT, told).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn configuration_on_disks() -> Result<()> {
    shows_everything(User::Nonroot).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn configuration_on_disks_as_root() -> Result<()> {
    shows_everything(User::Root).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_is_not_mounted_is_named_and_can_come_later() -> Result<()> {
    let vmi =
        Vmi::new("late", User::Nonroot).volume("settings", json!({ "configMap": { "name": "x" } }));
    let scene = Scene::open(User::Nonroot, &vmi).await?;
    let answer = scene.commands.sync(&vmi).await?;
    assert!(!answer.success);
    for part in [
        "volume settings (configMap)",
        "/var/run/kubevirt-private/config-map/settings",
    ] {
        assert!(
            answer.message.contains(part),
            "{part} in {}",
            answer.message
        );
    }
    let seen = scene.commands.domain().await?;
    assert_eq!(
        seen,
        Value::Null,
        "what fails before define leaves no domain"
    );
    let mounted = scene.pod.path("/run/kubevirt-private/config-map/settings");
    fs::create_dir_all(&mounted)?;
    fs::write(mounted.join("app.conf"), "late")?;
    scene.boot(&vmi).await?;
    scene.close(&vmi).await
}
