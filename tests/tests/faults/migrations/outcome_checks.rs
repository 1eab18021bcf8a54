//! Checks which side runs the VM after a row, and both sides' states.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kubevirt_api::libvirt_migration_hook_protocol::MIGRATED_MARKER;
use tests::emulated_virt_handler::Event;
use tests::launcher_fixture::{EVENT_TIMEOUT, LauncherFixture};
use tests::migration::{MIGRATION_TIMEOUT, MigrationPods, has_ended, migrating, migration_of};
use tests::vmi_builder::Vmi;

use super::fault_injection::find_guest_qemu;
use super::migration_row::{MigrationPhase, MigrationRow, Outcome, PodEnd, Refusal, Side};
use super::migration_row_run::MigrationRowRun;

/// The time limit for the outcome of a fault on a busy machine.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until the row's outcome holds. Returns the side that runs the VM.
pub(crate) async fn check(run: &mut MigrationRowRun, row: &MigrationRow) -> Result<Side> {
    if row.outcome == Outcome::Nowhere {
        return check_nowhere(run, row).await;
    }
    let record = source_record(run).await.context("the source's record")?;
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
        run.reason = reason.to_owned();
    }
    if record.is_some() && row.pod_end(Side::Source) == PodEnd::Clean {
        let marker = run.pods()?.source.pod.path(MIGRATED_MARKER);
        let is_marked = marker.exists();
        ensure!(
            is_marked == (side == Side::Target),
            "the marker of backend storage on the source: {is_marked}"
        );
    }
    match side {
        Side::Source => check_on_source(run, row).await?,
        Side::Target => check_on_target(run, row).await?,
    }
    Ok(side)
}

/// The source's record of the ended migration; `None` if SyncMigrationTarget failed as expected, or the source has
/// ended.
async fn source_record(run: &mut MigrationRowRun) -> Result<Option<serde_json::Value>> {
    if run.target_refused {
        return Ok(None);
    }
    ensure!(run.requested, "the migration was not requested");
    let uid = run.uid();
    let pods = run.pods()?;
    let begin = Instant::now();
    loop {
        let ended = |event: &&Event| has_ended(event, &uid);
        if let Some(end) = pods.source.handler.events().iter().rev().find(ended) {
            return Ok(Some(migration_of(end).clone()));
        }
        if pods.source.pod.wait_for_exit(Duration::ZERO).await.is_ok() {
            return Ok(None);
        }
        ensure!(
            begin.elapsed() < MIGRATION_TIMEOUT,
            "the migration does not end"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Checks that the VM runs on the source, and that the target's pod ends.
async fn check_on_source(run: &mut MigrationRowRun, row: &MigrationRow) -> Result<()> {
    let vmi = run.vmi()?.clone();
    let uid = run.uid();
    let pods = run.pods()?;
    check_running(&pods.source, &vmi)
        .await
        .context("the source")?;
    // virt-handler calls this after a failure, and ignores the error of a launcher that has ended.
    let _ = pods.clean_up_target(&migrating(&vmi, &uid)).await;
    check_pod_end(&mut pods.target, row.pod_end(Side::Target))
        .await
        .context("the target")?;
    let begin = Instant::now();
    loop {
        let [source, target] = run.events();
        ensure!(
            !target.iter().any(is_running),
            "the target was reported to run: {}",
            run.current_states()
        );
        let last = source.iter().rev().find(|event| !event.state().is_empty());
        if last.is_none_or(is_running) {
            return Ok(());
        }
        ensure!(
            begin.elapsed() < EVENT_TIMEOUT,
            "reported states: {}",
            run.current_states()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Checks that the VM runs on the target, and that the source ends after virt-handler's delete.
async fn check_on_target(run: &mut MigrationRowRun, row: &MigrationRow) -> Result<()> {
    let vmi = run.vmi()?.clone();
    let uid = run.uid();
    let pods = run.pods()?;
    pods.wait_for_any_target_end().await?;
    let answer = pods.finalize(&migrating(&vmi, &uid)).await?;
    ensure!(answer.success, "{}", answer.message);
    pods.target.commands.sync(&vmi).await?.accepted()?;
    check_running(&pods.target, &vmi)
        .await
        .context("the target")?;
    let MigrationPods { source, target } = pods;
    let _ = source.commands.delete(&vmi).await;
    check_pod_end(source, row.pod_end(Side::Source))
        .await
        .context("the source")?;
    let begin = Instant::now();
    loop {
        let events = target.handler.events();
        let last = events.iter().rev().find(|event| has_ended(event, &uid));
        let last = last.context("the target did not report the end")?;
        if is_running(last) {
            return Ok(());
        }
        ensure!(begin.elapsed() < EVENT_TIMEOUT, "{last}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Checks that neither side runs the VM, and that both report it.
async fn check_nowhere(run: &mut MigrationRowRun, row: &MigrationRow) -> Result<Side> {
    let vmi = run.vmi()?.clone();
    let uid = run.uid();
    if row.phase == MigrationPhase::PostCopy {
        source_record(run).await.context("the source's record")?;
    }
    let pods = run.pods()?;
    let _ = pods.clean_up_target(&migrating(&vmi, &uid)).await;
    check_pod_end(&mut pods.target, row.pod_end(Side::Target))
        .await
        .context("the target")?;
    let source = &mut pods.source;
    let begin = Instant::now();
    while source.pod.wait_for_exit(Duration::ZERO).await.is_err() {
        let states = source.handler.states();
        if states
            .last()
            .is_some_and(|state| state.contains("Shutoff/"))
        {
            let _ = source.commands.delete(&vmi).await;
            break;
        }
        if states
            .last()
            .is_some_and(|state| state.contains("/PostcopyFailed"))
        {
            // As virt-handler does.
            let _ = source.commands.kill(&vmi).await;
        }
        ensure!(
            begin.elapsed() < OUTCOME_TIMEOUT,
            "the end is not reported: {states:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    check_pod_end(source, row.pod_end(Side::Source))
        .await
        .context("the source")?;
    let [_, target] = run.events();
    // In post-copy the guest has run on the target.
    let has_run = match row.phase {
        MigrationPhase::PostCopy => target.last().is_some_and(is_running),
        _ => target.iter().any(is_running),
    };
    ensure!(
        !has_run,
        "the target was reported to run: {}",
        run.current_states()
    );
    Ok(Side::Source)
}

fn is_running(event: &Event) -> bool {
    event.state().starts_with("Running/")
}

/// Waits until the launcher reports a running VM, its guest answers, and the VM can be paused.
async fn check_running(launcher: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let begin = Instant::now();
    loop {
        match check_health(launcher, vmi).await {
            Ok(()) => return Ok(()),
            Err(error) if begin.elapsed() > OUTCOME_TIMEOUT => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

async fn check_health(launcher: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let domain = launcher.commands.domain().await?;
    let status = &domain["Status"]["Status"];
    ensure!(status == "Running", "GetDomain says {status}");
    launcher.commands.guest_ping(vmi, 5).await?.accepted()?;
    launcher.commands.pause(vmi).await?.accepted()?;
    launcher.commands.unpause(vmi).await?.accepted()
}

/// Waits for the pod's end, and checks that none of its guests runs.
async fn check_pod_end(launcher: &mut LauncherFixture, end: PodEnd) -> Result<()> {
    let status = launcher.pod.wait_for_exit(OUTCOME_TIMEOUT).await?;
    if find_guest_qemu(&launcher.pod.processes()).is_some() {
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
