//! A migration with compressed memory, and a migration to a larger volume.

use std::fs;
use std::os::unix::fs::{FileExt, chown};
use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tests::migration::{MigrationPods, PreparedMigration, migrating, migration_of, stock_options};
use tests::pod::{LauncherUser, QEMU_UID};
use tests::vmi_builder::Vmi;

const UID: &str = "4d4d0000-0000-4000-8000-000000000071";
const CLAIM_DIRECTORY: &str = "/run/kubevirt-private/vmi-disks/data";
const CONTENT: &str = "THE-DATA";
const MIB: u64 = 1 << 20;

async fn migrate_successfully(pods: &MigrationPods, vmi: &Vmi, options: &Value) -> Result<()> {
    pods.migrate(vmi, options).await?.accepted()?;
    let end = pods.wait_for_source_end(UID).await?;
    let record = migration_of(&end);
    ensure!(record["Failed"] != true, "{record}");
    pods.wait_for_any_target_end().await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_compressed() -> Result<()> {
    let user = LauncherUser::Nonroot;
    let vmi = Vmi::new("zipped", user);
    let pods = MigrationPods::start(user, &vmi).await?;
    pods.source.boot_without_controller(&vmi).await?;
    pods.source.wait_for_agent(&vmi).await?;
    let _proxies = pods.prepare_target(&vmi, UID).await?;
    let mut options = stock_options();
    options["Compression"] = json!("zstd");
    migrate_successfully(&pods, &migrating(&vmi, UID), &options).await?;
    pods.target.wait_for_agent(&vmi).await?;
    pods.end_source(&vmi).await?.end_vm(&vmi).await
}

/// Creates the image of a claim.
fn put_image(directory: &Path, content: &str, bytes: u64) -> Result<()> {
    fs::create_dir_all(directory)?;
    let image = directory.join("disk.img");
    fs::write(&image, content)?;
    fs::File::options()
        .write(true)
        .open(&image)?
        .set_len(bytes)?;
    chown(directory, Some(QEMU_UID), Some(QEMU_UID))?;
    Ok(chown(image, Some(QEMU_UID), Some(QEMU_UID))?)
}

/// The target's claim is twice as large, and the guest's disk keeps its size.
#[tokio::test(flavor = "multi_thread")]
async fn volume_is_copied_to_a_larger_one() -> Result<()> {
    let user = LauncherUser::Nonroot;
    let image = json!({ "hostDisk": {
        "path": format!("{CLAIM_DIRECTORY}/disk.img"), "type": "DiskOrCreate", "capacity": "32Mi", "shared": false,
    } });
    let vmi = Vmi::new("volumes", user).volume("data", image);
    let prepared = PreparedMigration::create(user)?;
    put_image(
        &prepared.source.pod.path(CLAIM_DIRECTORY),
        CONTENT,
        32 * MIB,
    )?;
    put_image(&prepared.target.pod.path(CLAIM_DIRECTORY), "", 64 * MIB)?;
    let pods = prepared.start(&vmi, &[]).await?;
    pods.source.boot_without_controller(&vmi).await?;
    pods.source.wait_for_agent(&vmi).await?;
    let claim = |name: &str| json!({"claimName": name, "volumeMode": "Filesystem"});
    let with_migrated_volume = |vmi: &Vmi| {
        vmi.clone().edit(|vmi| {
            vmi["status"]["migratedVolumes"] = json!([{
                "volumeName": "data", "sourcePVCInfo": claim("small"), "destinationPVCInfo": claim("large"),
            }]);
        })
    };
    let _proxies = pods
        .prepare_target(&with_migrated_volume(&vmi), UID)
        .await?;
    migrate_successfully(
        &pods,
        &with_migrated_volume(&migrating(&vmi, UID)),
        &stock_options(),
    )
    .await?;
    pods.target.wait_for_agent(&vmi).await?;
    let sectors = ["-c", "cat /sys/block/vda/size"];
    let guest = pods.target.commands.exec(&vmi, "/bin/sh", &sectors).await?;
    ensure!(guest.std_out.trim() == "65536", "{guest:?}");
    let image = fs::File::open(pods.target.pod.path(CLAIM_DIRECTORY).join("disk.img"))?;
    let mut begin = [0; CONTENT.len()];
    image.read_exact_at(&mut begin, 0)?;
    ensure!(begin == *CONTENT.as_bytes(), "{begin:?}");
    ensure!(image.metadata()?.len() == 64 * MIB);
    pods.end_source(&vmi).await?.end_vm(&vmi).await
}
