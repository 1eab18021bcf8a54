//! Disks with configuration (ConfigMaps, Secrets, downward API, service account, sysprep, downward metrics, Ignition)
//! as the guest reads them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tests::launcher_fixture::{EVENT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

const PRIVATE_DIRECTORY: &str = "/run/kubevirt-private";
const HOST_DISK: &str = "/run/kubevirt-private/vmi-disks/data/disk.img";
const IGNITION_FILE: &str =
    "/run/kubevirt-ephemeral-disks/ignition-data/default/configured/data.ign";
const IGNITION: &str = r#"{"ignition":{"version":"3.4.0"}}"#;

/// Names that need Rock Ridge's continuation areas, in several blocks. A ConfigMap's key has at most 253 characters.
fn long_names() -> Vec<String> {
    let of_length = |length: usize| {
        (0..12).map(move |number| format!("{length}-{number:02}-{}", "k".repeat(length - 7)))
    };
    [130, 205, 253].into_iter().flat_map(of_length).collect()
}

/// Writes files as the kubelet mounts them: links to a versioned directory behind the link `..data`.
fn mount(prepared: &PreparedPod, path_in_pod: &str, files: &[(&str, &str)]) -> Result<()> {
    let mount = prepared.pod.path(path_in_pod);
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

/// A VMI with one volume of each kind, which become `vda`, `vdb`, ... in this order.
fn vmi(user: LauncherUser) -> Vmi {
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

fn prepare_pod(user: LauncherUser) -> Result<PreparedPod> {
    let prepared = PreparedPod::create(user)?;
    let private_path = |name: &str| format!("{PRIVATE_DIRECTORY}/{name}");
    let long_names = long_names();
    let mut settings: Vec<_> = long_names
        .iter()
        .map(|name| (name.as_str(), "long"))
        .collect();
    settings.push(("app.conf", "colour=blue\n"));
    mount(&prepared, &private_path("config-map/settings"), &settings)?;
    mount(
        &prepared,
        &private_path("secret/keys"),
        &[("password", "hunter2")],
    )?;
    mount(
        &prepared,
        &private_path("downwardapi/podinfo"),
        &[("labels", "app=\"web\"")],
    )?;
    let account = "/run/secrets/kubernetes.io/serviceaccount";
    mount(
        &prepared,
        account,
        &[("token", "ey.J"), ("namespace", "default")],
    )?;
    mount(
        &prepared,
        &private_path("sysprep/unattend"),
        &[("Autounattend.xml", "<unattend/>")],
    )?;
    // The kubelet mounts a claim writable for the pod's group.
    let claim = prepared.pod.path(HOST_DISK);
    let directory = claim.parent().unwrap_or(&claim);
    fs::create_dir_all(directory)?;
    std::os::unix::fs::chown(directory, Some(107), Some(107))?;
    Ok(prepared)
}

async fn shell(fixture: &LauncherFixture, vmi: &Vmi, script: &str) -> Result<String> {
    let answer = fixture.commands.exec(vmi, "sh", &["-c", script]).await?;
    ensure!(answer.exit_code == 0, "{script}: {answer:?}");
    Ok(answer.std_out)
}

/// The content of a file on a disk in the guest.
async fn file(fixture: &LauncherFixture, vmi: &Vmi, disk: &str, name: &str) -> Result<String> {
    let script = format!(
        "mkdir -p /tmp/{disk}; mount -t iso9660 -o ro /dev/{disk} /tmp/{disk} || exit; cat /tmp/{disk}/{name}; umount /tmp/{disk}"
    );
    shell(fixture, vmi, &script).await
}

fn has_label(reports: &[String], disk: &str, label: &str) -> bool {
    let start = format!("disk {disk}: ");
    reports
        .iter()
        .any(|report| report.starts_with(&start) && report.contains(&format!(" label={label} ")))
}

async fn check_all_disks(user: LauncherUser) -> Result<()> {
    let vmi = vmi(user);
    let mut fixture = prepare_pod(user)?.start(&vmi, &[]).await?;
    let reports = fixture.boot_and_read_reports(&vmi).await?;
    fixture.wait_for_agent(&vmi).await?;
    let images = generated_images(&fixture);
    // One for each volume but the hostDisk.
    assert_eq!(images.len(), 6, "{images:#?}");
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
            has_label(&reports, disk, label),
            "{disk} {label} in {reports:#?}"
        );
        assert_eq!(
            file(&fixture, &vmi, disk, name).await?,
            content,
            "{disk} {name}"
        );
    }
    check_long_names(&fixture, &vmi).await?;
    let metrics = shell(
        &fixture,
        &vmi,
        "head -c 36 /dev/vdf | tail -c 20; cat /sys/block/vdf/size",
    )
    .await?;
    assert_eq!(metrics, "<metrics></metrics>\n512\n");
    // On a node, virt-handler serves the downward metrics at the socket of this port.
    shell(
        &fixture,
        &vmi,
        "[ -e /dev/virtio-ports/org.github.vhostmd.1 ]",
    )
    .await?;
    let socket = "downwardmetrics-channel/downwardmetrics.sock";
    ensure!(
        fixture.pod.path(PRIVATE_DIRECTORY).join(socket).exists(),
        "no {socket}"
    );
    let sectors = shell(&fixture, &vmi, "cat /sys/block/vdg/size").await?;
    assert_eq!(
        sectors.trim(),
        "49152",
        "made with 8 MiB, grown to the claim's 24"
    );
    let host_disk = fs::metadata(fixture.pod.path(HOST_DISK))?;
    assert_eq!(host_disk.len(), 24 << 20);
    check_ignition(&fixture).await?;
    fixture.end_vm_and_keep_files(&vmi).await?;
    assert_eq!(generated_images(&fixture), [] as [PathBuf; 0]);
    assert!(!fixture.pod.path(IGNITION_FILE).exists());
    assert_eq!(fs::metadata(fixture.pod.path(HOST_DISK))?.len(), 24 << 20);
    Ok(())
}

/// The images of configuration that the launcher has written.
fn generated_images(fixture: &LauncherFixture) -> Vec<PathBuf> {
    let directories = [
        "config-map-disks",
        "secret-disks",
        "downwardapi-disks",
        "service-account-disk",
        "sysprep-disks",
    ];
    let directories = directories
        .map(|name| fs::read_dir(fixture.pod.path(&format!("{PRIVATE_DIRECTORY}/{name}"))));
    let entries = directories.into_iter().flatten().flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

/// Linux shows every file with a long name, in both directories that have it.
async fn check_long_names(fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    for directory in ["", "..data/"] {
        let script = format!(
            "mkdir -p /tmp/long; mount -t iso9660 -o ro /dev/vda /tmp/long || exit; \
             cd /tmp/long/{directory}; for file in *-*-k*; do read content <$file; echo $file $content; done; \
             cd /; umount /tmp/long"
        );
        let listing = shell(fixture, vmi, &script).await?;
        let mut found: Vec<&str> = listing.lines().collect();
        found.sort_unstable();
        let mut expected: Vec<String> = long_names()
            .iter()
            .map(|name| format!("{name} long"))
            .collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "in /{directory}");
    }
    Ok(())
}

async fn check_ignition(fixture: &LauncherFixture) -> Result<()> {
    let file = fixture.pod.path(IGNITION_FILE);
    assert_eq!(fs::read_to_string(file)?, IGNITION);
    // The pod's log contains QEMU's log, which begins with its arguments.
    let is_reported = async || {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let argument = "-fw_cfg name=opt/com.coreos/config,file=";
        fixture.pod.log().contains(argument).then_some(())
    };
    tests::wait_until(
        "QEMU to be handed the Ignition file",
        EVENT_TIMEOUT,
        is_reported,
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guest_reads_all_config_disks() -> Result<()> {
    check_all_disks(LauncherUser::Nonroot).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guest_reads_all_config_disks_as_root() -> Result<()> {
    check_all_disks(LauncherUser::Root).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_mount_is_reported_and_a_retry_succeeds() -> Result<()> {
    let vmi = Vmi::new("late", LauncherUser::Nonroot)
        .volume("settings", json!({ "configMap": { "name": "x" } }));
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    let answer = fixture.commands.sync(&vmi).await?;
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
    let domain = fixture.commands.domain().await?;
    assert_eq!(
        domain,
        Value::Null,
        "what fails before define leaves no domain"
    );
    let mount = fixture
        .pod
        .path("/run/kubevirt-private/config-map/settings");
    fs::create_dir_all(&mount)?;
    fs::write(mount.join("app.conf"), "late")?;
    fixture.boot(&vmi).await?;
    fixture.end_vm(&vmi).await
}
