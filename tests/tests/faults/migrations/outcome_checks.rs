//! Checks where the VM runs after a row, and what both sides say.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kubevirt_api::libvirt_hook_protocol::MIGRATED_MARKER;
use tests::launcher_fixture::{EVENT, LauncherFixture};
use tests::migration::{MIGRATION, MigrationPods, has_ended, migrating, migration_of};
use tests::virt_handler::Event;
use tests::vmi_builder::Vmi;

use super::matrix_vocabulary::{MigrationRow, Moment, Outcome, PodEnd, Refusal, Side};
use super::row_steps::{Trial, guest_of};

/// What follows from a fault, on a busy machine.
const SETTLED: Duration = Duration::from_secs(60);

/// Waits until the row's outcome holds. Returns the side that runs the VM.
pub(crate) async fn check(trial: &mut Trial, row: &MigrationRow) -> Result<Side> {
    if row.outcome == Outcome::Nowhere {
        return nowhere(trial, row).await;
    }
    let record = source_record(trial).await.context("the source's record")?;
    if let Some(Refusal::Migration(expected)) = row.refusal {
        let record = record.as_ref().context("the source is gone")?;
        let reason = record["FailureReason"].as_str().unwrap_or_default();
        ensure!(reason.contains(expected), "the record: {record}");
    }
    let side = match (row.outcome, &record) {
        (Outcome::OnSource, _) => Side::Source,
        (Outcome::OnTarget, _) => Side::Target,
        (_, Some(record)) if record["Failed"] != true => Side::Target,
        _ => Side::Source,
    };
    if let Some(record) = &record {
        let failed = record["Failed"] == true;
        ensure!(failed == (side == Side::Source), "the record: {record}");
        let reason = record["FailureReason"].as_str().unwrap_or_default();
        ensure!(failed != reason.is_empty(), "the record: {record}");
        trial.reason = reason.to_owned();
    }
    if record.is_some() && row.ends(Side::Source) == PodEnd::Clean {
        let marker = trial.pods()?.source.pod.path(MIGRATED_MARKER);
        let is_marked = marker.exists();
        ensure!(
            is_marked == (side == Side::Target),
            "the marker of backend storage on the source: {is_marked}"
        );
    }
    match side {
        Side::Source => on_source(trial, row).await?,
        Side::Target => on_target(trial, row).await?,
    }
    Ok(side)
}

/// The record of the migration that has ended; `None` if the target was not to be prepared, or the source is gone.
async fn source_record(trial: &mut Trial) -> Result<Option<serde_json::Value>> {
    if trial.is_unprepared {
        return Ok(None);
    }
    ensure!(trial.requested, "the migration was not requested");
    let uid = trial.uid();
    let pods = trial.pods()?;
    let begin = Instant::now();
    loop {
        let ended = |event: &&Event| has_ended(event, &uid);
        if let Some(end) = pods.source.handler.events().iter().rev().find(ended) {
            return Ok(Some(migration_of(end).clone()));
        }
        if pods.source.pod.wait_for_exit(Duration::ZERO).await.is_ok() {
            return Ok(None);
        }
        ensure!(begin.elapsed() < MIGRATION, "the migration does not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The VM runs on the source, and the target's pod ends.
async fn on_source(trial: &mut Trial, row: &MigrationRow) -> Result<()> {
    let vmi = trial.vmi()?.clone();
    let uid = trial.uid();
    let pods = trial.pods()?;
    runs(&pods.source, &vmi).await.context("the source")?;
    // virt-handler calls this after a failure, and ignores the error of a launcher that has ended.
    let _ = pods.clean_up_target(&migrating(&vmi, &uid)).await;
    ends(&mut pods.target, row.ends(Side::Target))
        .await
        .context("the target")?;
    let begin = Instant::now();
    loop {
        let [source, target] = trial.events();
        ensure!(
            !target.iter().any(is_running),
            "the target was reported to run: {}",
            trial.told()
        );
        let last = source.iter().rev().find(|event| !event.state().is_empty());
        if last.is_none_or(is_running) {
            return Ok(());
        }
        ensure!(begin.elapsed() < EVENT, "told: {}", trial.told());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The VM runs on the target, and the source ends after virt-handler's delete.
async fn on_target(trial: &mut Trial, row: &MigrationRow) -> Result<()> {
    let vmi = trial.vmi()?.clone();
    let uid = trial.uid();
    let pods = trial.pods()?;
    pods.wait_for_any_target_end().await?;
    let finalized = pods.finalize(&migrating(&vmi, &uid)).await?;
    ensure!(finalized.success, "{}", finalized.message);
    pods.target.commands.sync(&vmi).await?.ok()?;
    runs(&pods.target, &vmi).await.context("the target")?;
    let MigrationPods { source, target } = pods;
    let _ = source.commands.delete(&vmi).await;
    ends(source, row.ends(Side::Source))
        .await
        .context("the source")?;
    let begin = Instant::now();
    loop {
        let arrived = target.handler.events();
        let last = arrived.iter().rev().find(|event| has_ended(event, &uid));
        let last = last.context("the target did not report the end")?;
        if is_running(last) {
            return Ok(());
        }
        ensure!(begin.elapsed() < EVENT, "{last}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Neither side runs the VM, and both say so.
async fn nowhere(trial: &mut Trial, row: &MigrationRow) -> Result<Side> {
    let vmi = trial.vmi()?.clone();
    let uid = trial.uid();
    if row.moment == Moment::PostCopy {
        source_record(trial).await.context("the source's record")?;
    }
    let pods = trial.pods()?;
    let _ = pods.clean_up_target(&migrating(&vmi, &uid)).await;
    ends(&mut pods.target, row.ends(Side::Target))
        .await
        .context("the target")?;
    let source = &mut pods.source;
    let begin = Instant::now();
    while source.pod.wait_for_exit(Duration::ZERO).await.is_err() {
        let told = source.handler.states();
        if told.last().is_some_and(|state| state.contains("Shutoff/")) {
            let _ = source.commands.delete(&vmi).await;
            break;
        }
        if told
            .last()
            .is_some_and(|state| state.contains("/PostcopyFailed"))
        {
            // As virt-handler does.
            let _ = source.commands.kill(&vmi).await;
        }
        ensure!(
            begin.elapsed() < SETTLED,
            "the end is not reported: {told:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ends(source, row.ends(Side::Source))
        .await
        .context("the source")?;
    let [_, target] = trial.events();
    // In post-copy it ran there.
    let runs = match row.moment {
        Moment::PostCopy => target.last().is_some_and(is_running),
        _ => target.iter().any(is_running),
    };
    ensure!(!runs, "the target was reported to run: {}", trial.told());
    Ok(Side::Source)
}

fn is_running(event: &Event) -> bool {
    event.state().starts_with("Running/")
}

/// The launcher says that the VM runs, its guest answers, and it can be paused.
async fn runs(launcher: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let begin = Instant::now();
    loop {
        match is_well(launcher, vmi).await {
            Ok(()) => return Ok(()),
            Err(error) if begin.elapsed() > SETTLED => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

async fn is_well(launcher: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let domain = launcher.commands.domain().await?;
    let status = &domain["Status"]["Status"];
    ensure!(status == "Running", "GetDomain says {status}");
    launcher.commands.guest_ping(vmi, 5).await?.ok()?;
    launcher.commands.pause(vmi).await?.ok()?;
    launcher.commands.unpause(vmi).await?.ok()
}

/// The pod has ended, and no guest of it runs.
async fn ends(launcher: &mut LauncherFixture, end: PodEnd) -> Result<()> {
    let status = launcher.pod.wait_for_exit(SETTLED).await?;
    if guest_of(&launcher.pod.processes()).is_some() {
        bail!("QEMU outlives its pod");
    }
    ensure!(
        status.success() || end == PodEnd::Killed,
        "the pod ended with {status}"
    );
    let panicked = launcher.pod.log().contains("panicked");
    ensure!(!panicked, "the launcher panicked");
    Ok(())
}
