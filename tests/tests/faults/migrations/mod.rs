//! Faults of live migrations. After each row exactly one side runs the VM or none does, both sides' states say so, and a
//! second migration works. The VM goes on to the next row where it is.

mod matrix_vocabulary;
mod migration_matrix;
mod outcome_checks;
mod row_steps;
mod sidecar_xml_rewrites;

use std::time::{Duration, Instant};

use anyhow::Result;

use matrix_vocabulary::{MigrationRow, Outcome};
use migration_matrix::MIGRATIONS;
use row_steps::{RunningVm, Trial};

/// The time limit of a row.
const LONGEST: Duration = Duration::from_secs(240);

/// The rows whose name contains one of `filters`; without filters all, or the quick ones.
pub(crate) fn choose(filters: &[String], all: bool) -> Vec<MigrationRow> {
    let wanted = |row: &&MigrationRow| match filters {
        [] => all || row.quick,
        _ => filters.iter().any(|one| row.title().contains(one)),
    };
    MIGRATIONS.iter().filter(wanted).copied().collect()
}

/// Runs the rows, one after the other: each has two pods. Returns the number of failures.
pub(crate) async fn run(rows: Vec<MigrationRow>) -> usize {
    if rows.is_empty() {
        return 0;
    }
    let begin = Instant::now();
    let (mut vm, mut failed) = (None, 0);
    for (number, row) in (0_u32..).zip(&rows) {
        let row_begin = Instant::now();
        let mut trial = Trial::new(number);
        let played = tokio::time::timeout(LONGEST, play(&mut trial, vm.take(), row)).await;
        let played = played.unwrap_or_else(|_| Err(anyhow::anyhow!("gave up after {LONGEST:?}")));
        let (verdict, what) = match &played {
            Ok(_) => ("ok  ", "a second migration worked".to_owned()),
            Err(error) => ("FAIL", format!("{error:#}")),
        };
        let told = trial.story();
        println!(
            "{verdict} {:<58} told: {told}; {} ms; {what}",
            row.title(),
            row_begin.elapsed().as_millis()
        );
        if !trial.reason.is_empty() {
            println!("     the source: {}", trial.reason);
        }
        if let Err(error) = &played {
            failed += 1;
            trial.save_logs(&row.title(), &format!("{row:#?}\n\n{error:#}"));
        }
        vm = played.ok().flatten();
        trial.suppress_logs();
    }
    println!(
        "faults: {} of {} migration rows passed in {:?}",
        rows.len() - failed,
        rows.len(),
        begin.elapsed()
    );
    failed
}

/// Plays a row with the VM of the row before, if that left one. Returns the VM after a second migration.
async fn play(
    trial: &mut Trial,
    vm: Option<RunningVm>,
    row: &MigrationRow,
) -> Result<Option<RunningVm>> {
    trial.prepare(vm, row.target).await?;
    trial.play(row).await?;
    let side = outcome_checks::check(trial, row).await?;
    trial.keep_story();
    if row.outcome == Outcome::Nowhere {
        return Ok(None);
    }
    trial.migrate_again(side).await.map(Some)
}
