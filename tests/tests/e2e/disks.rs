//! What the guest finds on its disks.

use std::fs;

use anyhow::Result;
use serde_json::json;
use tests::guest::{CONTAINER_DISK_MARK, Guest};
use tests::pod::User;
use tests::scenario::Stage;
use tests::vmi::Vmi;

/// What is mounted into the pod: a volume's user data, and a user's key.
const SECRETS: [(&str, &str, &str); 2] = [
    (
        "configdrive",
        "userdata",
        "#cloud-config\nhostname: secret\n",
    ),
    ("keys-access-cred", "key", "ssh-ed25519 AAAA one@example"),
];

/// A key that goes to the guest this way.
fn with_key(vmi: Vmi, method: &str) -> Vmi {
    vmi.edit(|vmi| {
        vmi["spec"]["accessCredentials"] = json!([{ "sshPublicKey": {
            "source": { "secret": { "secretName": "keys" } }, "propagationMethod": { method: {} },
        } }]);
    })
}

fn has_key(facts: &[String]) -> bool {
    facts.iter().any(|fact| {
        fact.starts_with("meta-data: ") && fact.contains("ssh-ed25519 AAAA one@example")
    })
}

/// The volumes, in the order that gives them `vda`, `vdb`, `vdc` and their index.
async fn boot_with_disks(
    user: User,
    name: &str,
    cloud_init: impl Fn(Vmi) -> Vmi,
) -> Result<(Vmi, Vec<String>)> {
    let vmi = cloud_init(
        Vmi::new(name, user)
            .container_disk("image")
            .empty_disk("scratch", "48Mi"),
    );
    let stage = Stage::set(user)?;
    for (directory, name, content) in SECRETS {
        let directory = stage
            .pod
            .path(&format!("/run/kubevirt-private/secret/{directory}"));
        fs::create_dir_all(&directory)?;
        fs::write(directory.join(name), content)?;
    }
    Guest::prepare()?
        .install_container_disk(&stage.pod.path("/run/kubevirt/container-disks"), 0)?;
    let scene = stage.start(&vmi, &[]).await?;
    let facts = scene.boot_to_ready(&vmi).await?;
    scene.close(&vmi).await?;
    Ok((vmi, facts))
}

fn check_disks(facts: &[String]) {
    let disk = |name: &str| {
        let start = format!("disk {name}: ");
        facts
            .iter()
            .find_map(|fact| fact.strip_prefix(&start))
            .unwrap_or_else(|| panic!("no {name} in {facts:#?}"))
    };
    let image = disk("vda");
    assert!(
        image.contains(&format!("bytes={}", 16 << 20)) && image.contains(CONTAINER_DISK_MARK),
        "{image}"
    );
    let empty = disk("vdb");
    assert!(empty.contains(&format!("bytes={}", 48 << 20)), "{empty}");
}

fn has(facts: &[String], line: &str) -> bool {
    facts.iter().any(|fact| fact.trim_end() == line)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn container_disk_empty_disk_and_no_cloud() -> Result<()> {
    let user_data = "#cloud-config\nhostname: no-cloud\n";
    let (vmi, facts) = boot_with_disks(User::Nonroot, "nocloud", |vmi| {
        with_key(vmi.cloud_init(user_data), "noCloud")
    })
    .await?;
    check_disks(&facts);
    assert!(has(&facts, "cloud-init: cidata"), "{facts:#?}");
    assert!(
        has(&facts, "user-data: #cloud-config") && has(&facts, "user-data: hostname: no-cloud"),
        "{facts:#?}"
    );
    assert!(has_key(&facts), "{facts:#?}");
    let meta_data = facts
        .iter()
        .any(|fact| fact.starts_with("meta-data: ") && fact.contains(vmi.uid()));
    assert!(
        meta_data,
        "the instance id is the firmware's uuid: {facts:#?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn container_disk_empty_disk_and_config_drive_as_root() -> Result<()> {
    let source = json!({ "cloudInitConfigDrive": { "secretRef": { "name": "any" } } });
    let (_, facts) = boot_with_disks(User::Root, "configdrive", |vmi| {
        with_key(vmi.volume("configdrive", source.clone()), "configDrive")
    })
    .await?;
    check_disks(&facts);
    assert!(has(&facts, "cloud-init: config-2"), "{facts:#?}");
    assert!(
        has(&facts, "user-data: hostname: secret") && has_key(&facts),
        "{facts:#?}"
    );
    assert!(
        facts
            .iter()
            .any(|fact| fact.starts_with("meta-data: ") && fact.contains("instance_id")),
        "{facts:#?}"
    );
    Ok(())
}
