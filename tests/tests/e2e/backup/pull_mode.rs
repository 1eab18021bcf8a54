//! Backups in pull mode, served to the export server.

use std::time::Duration;

use anyhow::{Result, ensure};
use proto::nbd::ReadRequest;
use serde_json::{Value, json};
use tests::export_server::{ExportServer, map, read_all};

use super::vm_with_tracked_disk::BackupFixture;
use super::{BACKUP, MIB, push, with};

/// Two backups in pull mode: the data that the export server reads are the disk's, byte for byte, and its maps say which
/// of them changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pulled_backups_are_served_to_the_export_server() -> Result<()> {
    let backup = BackupFixture::boot().await?;
    let server = ExportServer::start(&backup.fixture.pod).await?;
    check_full_pull(&backup, &server).await?;
    check_incremental_pull(&backup, &server).await?;
    backup.fixture.end_vm(&backup.vmi).await
}

fn pull(name: &str, minute: u32) -> Value {
    with(push(name, minute), "mode", json!("Pull"))
}

fn abort(name: &str, minute: u32) -> Value {
    with(pull(name, minute), "cmd", json!("Abort"))
}

async fn check_full_pull(backup: &BackupFixture, server: &ExportServer) -> Result<()> {
    const TIME: &str = "2026-11-21T13:20:00Z";
    let export = server.options("pl1", TIME)?;
    let refused = backup.request(export.clone()).await?;
    ensure!(!refused.success, "nothing to export: {refused:?}");
    let before = backup.fixture.handler.events().len();
    let disk = backup.disk()?;
    backup.start(pull("pl1", 20)).await?;
    backup.start(pull("pl1", 20)).await?;
    let other = backup.request(push("other", 21)).await?;
    ensure!(
        other.message == "backup pl1 already in progress, need to wait for completion",
        "{other:?}"
    );
    server.answer(http::StatusCode::SERVICE_UNAVAILABLE);
    backup.start(export.clone()).await?;
    backup.start(export).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.answer(http::StatusCode::OK);
    let mut client = server.client().await?;
    // What the guest writes now is not in the backup.
    backup.write_in_guest(7, 64).await?;
    ensure!(
        read_all(&mut client, "data").await? == disk,
        "the served data are not the disk"
    );
    let extents = map(&mut client, "data", "").await?;
    ensure!(
        extents == [(0, disk.len() as u64, "data".to_owned())],
        "{extents:?}"
    );
    let missing = read_all(&mut client, "scratch").await;
    ensure!(missing.is_err(), "a disk that is not tracked is served");
    // A client that stops reading neither stops others nor the end of the backup.
    let everything = ReadRequest {
        export_name: "data".to_owned(),
        ..ReadRequest::default()
    };
    let mut stalled = client.read(everything).await?.into_inner();
    ensure!(stalled.message().await?.is_some());
    ensure!(map(&mut client, "data", "").await?.len() == 1);
    let wrong = backup.request(abort("pl1", 19)).await?;
    ensure!(
        wrong.message == "failed to abort backup: requested backup differs from ongoing one",
        "{wrong:?}"
    );
    backup.start(abort("pl1", 20)).await?;
    let end = backup.ended("pl1", before).await?;
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
    tests::until("the end of the tunnel", BACKUP, is_closed).await
}

async fn check_incremental_pull(backup: &BackupFixture, server: &ExportServer) -> Result<()> {
    const CHECKPOINT: &str = "pl1-2026-11-21_13-20-00";
    let options = with(pull("pl2", 25), "incremental", json!(CHECKPOINT));
    backup.start(options).await?;
    backup
        .start(server.options("pl2", "2026-11-21T13:25:00Z")?)
        .await?;
    let mut client = server.client().await?;
    let extents = map(&mut client, "data", "pl2-2026-11-21_13-25-00").await?;
    let written = 7 * MIB as u64;
    let dirty: Vec<_> = extents
        .iter()
        .filter(|(_, _, what)| what == "dirty")
        .collect();
    ensure!(
        dirty.len() == 1 && dirty[0].0 == written && dirty[0].1 < MIB as u64,
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
    backup.start(abort("pl2", 25)).await
}
