//! Faults of live migrations. After each row exactly one side runs the VM or none does, both sides' states say so, and
//! a second migration works. The next row continues with the VM on the side where it runs.

mod fault_injection;
mod migration_matrix;
mod migration_options;
mod migration_row;
mod migration_row_run;
mod outcome_checks;
mod reported_states;
mod row_vmi_and_pods;
mod second_migration;
mod sidecar_xml_rewrites;

use std::time::{Duration, Instant};

use anyhow::Result;

use migration_matrix::MIGRATIONS;
use migration_row::{MigrationRow, Outcome};
use migration_row_run::MigrationRowRun;
use row_vmi_and_pods::RunningVm;

/// The time limit of a row.
const ROW_TIMEOUT: Duration = Duration::from_secs(240);

/// The rows whose name contains one of `filters`; without filters all, or the quick ones.
pub(crate) fn choose(filters: &[String], all: bool) -> Vec<MigrationRow> {
    let is_selected = |row: &&MigrationRow| match filters {
        [] => all || row.quick,
        _ => filters.iter().any(|filter| row.title().contains(filter)),
    };
    MIGRATIONS.iter().filter(is_selected).copied().collect()
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
        let mut run = MigrationRowRun::new(number);
        let result = tokio::time::timeout(ROW_TIMEOUT, run_row(&mut run, vm.take(), row)).await;
        let result =
            result.unwrap_or_else(|_| Err(anyhow::anyhow!("gave up after {ROW_TIMEOUT:?}")));
        let (verdict, detail) = match &result {
            Ok(_) => ("ok  ", "a second migration worked".to_owned()),
            Err(error) => ("FAIL", format!("{error:#}")),
        };
        let states = run.reported_states();
        println!(
            "{verdict} {:<58} states: {states}; {} ms; {detail}",
            row.title(),
            row_begin.elapsed().as_millis()
        );
        if !run.reason.is_empty() {
            println!("     the source: {}", run.reason);
        }
        if let Err(error) = &result {
            failed += 1;
            run.save_logs(&row.title(), &format!("{row:#?}\n\n{error:#}"));
        }
        vm = result.ok().flatten();
        run.suppress_logs();
    }
    println!(
        "faults: {} of {} migration rows passed in {:?}",
        rows.len() - failed,
        rows.len(),
        begin.elapsed()
    );
    failed
}

/// Runs a row with the previous row's VM, if there is one. Returns the VM after a second migration.
async fn run_row(
    run: &mut MigrationRowRun,
    vm: Option<RunningVm>,
    row: &MigrationRow,
) -> Result<Option<RunningVm>> {
    run.prepare(vm, row.target).await?;
    run.run_until_fault(row).await?;
    let side = outcome_checks::check(run, row).await?;
    run.save_reported_states();
    if row.outcome == Outcome::Nowhere {
        return Ok(None);
    }
    run.migrate_again(side).await.map(Some)
}
