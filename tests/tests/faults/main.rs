//! The fault matrix: something dies, hangs, fills up or is requested at the wrong moment. virt-handler must still be
//! notified of the true state in time, and nothing may be lost.
//!
//! `make test-faults` runs every row of [`fault_matrix`] and the leak tests; `cargo test` only the few rows marked
//! quick. One line per row has the notifications, the time of the recovery, and what was lost. Arguments select rows by
//! a part of their name.
#![allow(clippy::print_stdout)]

mod command_socket_clients;
mod fault_matrix;
mod fault_row;
mod fault_row_calls;
mod hotplugged_disks;
mod leaks;
mod leftover_sockets;
mod matrix_runner;
mod migrations;
mod notify_proxy;
mod row_expectation_checks;
mod row_run;
mod second_launcher;
mod stalled_backup_client;
mod test_vm;

use std::process::ExitCode;

use anyhow::Result;

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            println!("faults: {failed} failed");
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("faults: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the number of rows and leak tests that failed.
fn run() -> Result<usize> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|word| word == "--list") {
        return Ok(0);
    }
    let filters: Vec<String> = arguments
        .into_iter()
        .filter(|word| !word.starts_with('-'))
        .collect();
    let all = std::env::var_os("FAULTS").is_some_and(|value| value == "all");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()?;
    let failed = matrix_runner::run(runtime.handle(), matrix_runner::choose(&filters, all));
    let migrations = migrations::choose(&filters, all);
    let failed = failed + runtime.block_on(migrations::run(migrations));
    let leaks = if all {
        runtime.block_on(leaks::run(&filters))
    } else {
        0
    };
    Ok(failed + leaks)
}
