//! Backups in pull mode, which the launcher serves to the export server.

use std::time::Duration;

use anyhow::{Result, ensure};
use proto::nbd::ReadRequest;
use serde_json::{Value, json};
use tests::backup_export_server::{ExportServer, read_all, read_map};

use super::vm_with_tracked_disk::BackupFixture;
use super::{BACKUP_TIMEOUT, MIB, push_options, with_option};

/// A full and an incremental backup in pull mode: the export server reads the disk's data, and maps of what has
/// changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pulled_backups_are_served_to_the_export_server() -> Result<()> {
    let backup = BackupFixture::boot().await?;
    let server = ExportServer::start(&backup.fixture.pod).await?;
    check_full_pull(&backup, &server).await?;
    check_incremental_pull(&backup, &server).await?;
    backup.fixture.end_vm(&backup.vmi).await
}

fn pull_options(name: &str, minute: u32) -> Value {
    with_option(push_options(name, minute), "mode", json!("Pull"))
}

fn abort_options(name: &str, minute: u32) -> Value {
    with_option(pull_options(name, minute), "cmd", json!("Abort"))
}

async fn check_full_pull(backup: &BackupFixture, server: &ExportServer) -> Result<()> {
    const TIME: &str = "2026-11-21T13:20:00Z";
    let export = server.options("pl1", TIME)?;
    let refused = backup.request(export.clone()).await?;
    ensure!(!refused.success, "nothing to export: {refused:?}");
    let before = backup.fixture.handler.events().len();
    let disk = backup.disk()?;
    backup.start(pull_options("pl1", 20)).await?;
    backup.start(pull_options("pl1", 20)).await?;
    let other = backup.request(push_options("other", 21)).await?;
    ensure!(
        other.message == "backup pl1 already in progress, need to wait for completion",
        "{other:?}"
    );
    server.set_tunnel_status(http::StatusCode::SERVICE_UNAVAILABLE);
    backup.start(export.clone()).await?;
    backup.start(export).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.set_tunnel_status(http::StatusCode::OK);
    let mut client = server.client().await?;
    // Data that the guest writes during the backup is not in the backup.
    backup.write_in_guest(7, 64).await?;
    ensure!(
        read_all(&mut client, "data").await? == disk,
        "the served data are not the disk"
    );
    let extents = read_map(&mut client, "data", "").await?;
    ensure!(
        extents == [(0, disk.len() as u64, "data".to_owned())],
        "{extents:?}"
    );
    let missing = read_all(&mut client, "scratch").await;
    ensure!(missing.is_err(), "a disk that is not tracked is served");
    // A client that stops reading blocks neither other clients nor the end of the backup.
    let everything = ReadRequest {
        export_name: "data".to_owned(),
        ..ReadRequest::default()
    };
    let mut stalled = client.read(everything).await?.into_inner();
    ensure!(stalled.message().await?.is_some());
    ensure!(read_map(&mut client, "data", "").await?.len() == 1);
    let other_backup = backup.request(abort_options("pl1", 19)).await?;
    ensure!(
        other_backup.message == "failed to abort backup: requested backup differs from ongoing one",
        "{other_backup:?}"
    );
    backup.start(abort_options("pl1", 20)).await?;
    let end = backup.wait_for_end("pl1", before).await?;
    let record = &end.metadata()["Backup"];
    ensure!(
        record["Failed"] == false && record["BackupMsg"] == "",
        "{record}"
    );
    ensure!(
        record["Mode"] == "Pull" && record["QuiesceStatus"] == "Succeeded",
        "{record}"
    );
    let is_closed = async || read_all(&mut client, "data").await.is_err().then_some(());
    tests::wait_until("the end of the tunnel", BACKUP_TIMEOUT, is_closed).await
}

async fn check_incremental_pull(backup: &BackupFixture, server: &ExportServer) -> Result<()> {
    const CHECKPOINT: &str = "pl1-2026-11-21_13-20-00";
    let options = with_option(pull_options("pl2", 25), "incremental", json!(CHECKPOINT));
    backup.start(options).await?;
    backup
        .start(server.options("pl2", "2026-11-21T13:25:00Z")?)
        .await?;
    let mut client = server.client().await?;
    let extents = read_map(&mut client, "data", "pl2-2026-11-21_13-25-00").await?;
    let changed_offset = 7 * MIB as u64;
    let dirty: Vec<_> = extents
        .iter()
        .filter(|(_, _, what)| what == "dirty")
        .collect();
    ensure!(
        dirty.len() == 1 && dirty[0].0 == changed_offset && dirty[0].1 < MIB as u64,
        "{extents:?}"
    );
    ensure!(
        extents.iter().map(|(_, length, _)| length).sum::<u64>() == 16 * MIB as u64,
        "{extents:?}"
    );
    ensure!(
        read_all(&mut client, "data").await? == backup.disk()?,
        "not the disk"
    );
    backup.start(abort_options("pl2", 25)).await
}
