//! The guest's view of a container disk, an empty disk, and cloud-init data.

use std::fs;

use anyhow::Result;
use serde_json::json;
use tests::guest_image::{CONTAINER_DISK_MARK, Guest};
use tests::launcher_fixture::PreparedPod;
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

/// Secrets that are mounted into the pod: volume, file name and content.
const MOUNTED_SECRETS: [(&str, &str, &str); 2] = [
    (
        "configdrive",
        "userdata",
        "#cloud-config\nhostname: secret\n",
    ),
    ("keys-access-cred", "key", "ssh-ed25519 AAAA one@example"),
];

/// Adds an access credential with an SSH key and this propagation method.
fn with_key(vmi: Vmi, method: &str) -> Vmi {
    vmi.edit(|vmi| {
        vmi["spec"]["accessCredentials"] = json!([{ "sshPublicKey": {
            "source": { "secret": { "secretName": "keys" } }, "propagationMethod": { method: {} },
        } }]);
    })
}

fn has_key(reports: &[String]) -> bool {
    reports.iter().any(|report| {
        report.starts_with("meta-data: ") && report.contains("ssh-ed25519 AAAA one@example")
    })
}

/// Boots a VM whose volumes become `vda`, `vdb` and `vdc`, and returns the guest's reports.
async fn boot_with_disks(
    user: LauncherUser,
    name: &str,
    cloud_init: impl Fn(Vmi) -> Vmi,
) -> Result<(Vmi, Vec<String>)> {
    let vmi = cloud_init(
        Vmi::new(name, user)
            .container_disk("image")
            .empty_disk("scratch", "48Mi"),
    );
    let prepared = PreparedPod::create(user)?;
    for (directory, name, content) in MOUNTED_SECRETS {
        let directory = prepared
            .pod
            .path(&format!("/run/kubevirt-private/secret/{directory}"));
        fs::create_dir_all(&directory)?;
        fs::write(directory.join(name), content)?;
    }
    Guest::prepare()?
        .install_container_disk(&prepared.pod.path("/run/kubevirt/container-disks"), 0)?;
    let fixture = prepared.start(&vmi, &[]).await?;
    let reports = fixture.boot_and_read_reports(&vmi).await?;
    fixture.end_vm(&vmi).await?;
    Ok((vmi, reports))
}

fn check_disks(reports: &[String]) {
    let disk = |name: &str| {
        let start = format!("disk {name}: ");
        reports
            .iter()
            .find_map(|report| report.strip_prefix(&start))
            .unwrap_or_else(|| panic!("no {name} in {reports:#?}"))
    };
    let image = disk("vda");
    assert!(
        image.contains(&format!("bytes={}", 16 << 20)) && image.contains(CONTAINER_DISK_MARK),
        "{image}"
    );
    let empty = disk("vdb");
    assert!(empty.contains(&format!("bytes={}", 48 << 20)), "{empty}");
}

fn has_report(reports: &[String], line: &str) -> bool {
    reports.iter().any(|report| report.trim_end() == line)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn container_disk_empty_disk_and_no_cloud_reach_the_guest() -> Result<()> {
    let user_data = "#cloud-config\nhostname: no-cloud\n";
    let (vmi, reports) = boot_with_disks(LauncherUser::Nonroot, "nocloud", |vmi| {
        with_key(vmi.cloud_init(user_data), "noCloud")
    })
    .await?;
    check_disks(&reports);
    assert!(has_report(&reports, "cloud-init: cidata"), "{reports:#?}");
    assert!(
        has_report(&reports, "user-data: #cloud-config")
            && has_report(&reports, "user-data: hostname: no-cloud"),
        "{reports:#?}"
    );
    assert!(has_key(&reports), "{reports:#?}");
    let meta_data = reports
        .iter()
        .any(|report| report.starts_with("meta-data: ") && report.contains(vmi.uid()));
    assert!(
        meta_data,
        "the instance id is the firmware's uuid: {reports:#?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn container_disk_empty_disk_and_config_drive_reach_the_guest_as_root() -> Result<()> {
    let source = json!({ "cloudInitConfigDrive": { "secretRef": { "name": "any" } } });
    let (_, reports) = boot_with_disks(LauncherUser::Root, "configdrive", |vmi| {
        with_key(vmi.volume("configdrive", source.clone()), "configDrive")
    })
    .await?;
    check_disks(&reports);
    assert!(has_report(&reports, "cloud-init: config-2"), "{reports:#?}");
    assert!(
        has_report(&reports, "user-data: hostname: secret") && has_key(&reports),
        "{reports:#?}"
    );
    assert!(
        reports
            .iter()
            .any(|report| report.starts_with("meta-data: ") && report.contains("instance_id")),
        "{reports:#?}"
    );
    Ok(())
}
