//! Measures time and memory of a launcher with one WASM hook, and of the same hook served to a stock launcher:
//! `make measure` (`scripts/measure serve`: only the latter).
//!
//! Prints a table beside the reference's figures and asserts nothing, since absolute figures depend on the machine.
//! Everything is measured in one run, so that the ratio to an idle `virsh` is comparable between machines. With
//! `STOCK_LAUNCHER=DIRECTORY`, the calls of a running VM are made to KubeVirt's own launcher in that directory, too.
#![allow(clippy::print_stdout)]

mod bare_http2_grpc_client;
mod disk_attach;
mod idle_cost;
mod launcher_without_vm;
mod measured_launcher;
mod migrations;
mod process_memory;
mod result_tables;
mod running_vm_calls;
mod served_hook;

use anyhow::Result;

use crate::measured_launcher::MeasuredLauncher;
use crate::result_tables::{launcher_rows, migration_rows, print_table, running_rows, serve_rows};

/// How often a launcher is started.
const ROUNDS: usize = 7;

// One thread, so that waking this program's own threads is not part of the measured calls.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    if cfg!(debug_assertions) {
        println!("note: this is a debug build; 'make measure' builds with --release");
    }
    let stock = MeasuredLauncher::stock()?;
    if std::env::args().nth(1).as_deref() == Some("commands") {
        return print_commands(stock).await;
    }
    if std::env::args().nth(1).as_deref() == Some("migrations") {
        return print_migrations().await;
    }
    let served = serve_rows(&served_hook::measure().await?);
    if std::env::args().nth(1).as_deref() == Some("serve") {
        print_table("virt-hook serve with one hook", &served);
        return Ok(());
    }
    let virsh = process_memory::idle_virsh()?;
    let mut rounds = Vec::new();
    for number in 1..=ROUNDS {
        let round = launcher_without_vm::measure().await?;
        println!(
            "round {number}/{ROUNDS}: ready after {:.0} ms, {:.1} MB, ping {:.0} us, monitor ends {:.1} ms after the launcher",
            round.ready, round.launcher.rss, round.ping, round.monitor_exit
        );
        rounds.push(round);
    }
    let title = format!("median of {ROUNDS} launchers, uid 107");
    print_table(&title, &launcher_rows(&rounds, &virsh));
    print_commands(stock).await?;
    print_migrations().await?;
    print_table("virt-hook serve with one hook", &served);
    Ok(())
}

async fn print_migrations() -> Result<()> {
    let measured = migrations::measure().await?;
    print_table(
        "live migrations of a guest of 256 MiB between two pods, medians",
        &migration_rows(&measured),
    );
    Ok(())
}

/// Measures this project's launcher, and KubeVirt's own (`stock`) if there is one.
async fn print_commands(stock: Option<MeasuredLauncher>) -> Result<()> {
    let virsh = process_memory::idle_virsh()?;
    let measured = RunningVm::measure(&MeasuredLauncher::Ours).await?;
    let title = "a launcher whose VM runs with an agent, bare HTTP/2 client, p50";
    let mut rows = running_rows(&measured, &virsh);
    if let Some(stock) = stock {
        let stock = RunningVm::measure(&stock).await?;
        for (row, stock) in rows.iter_mut().zip(running_rows(&stock, &virsh)) {
            row.reference = format!("{}, measured here", stock.measured);
        }
    }
    print_table(&format!("{title} (load {})", load_averages()?), &rows);
    Ok(())
}

/// The measurements of a launcher whose VM runs.
struct RunningVm {
    calls: running_vm_calls::CallTimes,
    /// Milliseconds from the request to the notification of the disk.
    attach: f64,
}

impl RunningVm {
    /// The approximate duration of [`RunningVm::measure`].
    const MINUTES: u32 = 4;

    async fn measure(program: &MeasuredLauncher) -> Result<RunningVm> {
        println!("{program}: a running VM, {} minutes", RunningVm::MINUTES);
        Ok(RunningVm {
            calls: running_vm_calls::measure(program).await?,
            attach: disk_attach::measure(program).await?,
        })
    }
}

/// The machine's load averages, which explain a slow run.
fn load_averages() -> Result<String> {
    let text = std::fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

/// The median; NaN if there is no value.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
