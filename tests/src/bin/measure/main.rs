//! Measures time and memory of a launcher with one WASM hook, and of the same hook served to a stock launcher:
//! `make measure` (`scripts/measure serve`: only the latter).
//!
//! Prints a table beside the reference's figures and asserts nothing, since absolute figures depend on the machine.
//! Everything is measured in one run, so that the ratio to an idle `virsh` is comparable between machines. With
//! `STOCK_LAUNCHER=DIRECTORY`, the calls of a running VM are made to KubeVirt's own launcher in that directory, too.
#![allow(clippy::print_stdout)]

mod disk_attach;
mod idle_cost;
mod launcher_cycle;
mod launcher_program;
mod migrations;
mod process_memory;
mod raw_client;
mod running_vm_calls;
mod served_hook;

use anyhow::Result;

use crate::launcher_cycle::LauncherCycle;
use crate::launcher_program::LauncherProgram;

/// How often a launcher is started.
const ROUNDS: usize = 7;

/// One line of the table.
struct Row {
    what: &'static str,
    ours: String,
    goal: &'static str,
    reference: String,
}

// One thread, so that waking this program's own threads is not part of the measured calls.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    if cfg!(debug_assertions) {
        println!("note: this is a debug build; 'make measure' builds with --release");
    }
    let stock = LauncherProgram::stock()?;
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
        let round = launcher_cycle::measure().await?;
        println!(
            "round {number}/{ROUNDS}: ready after {:.0} ms, {:.1} MB, ping {:.0} us, monitor ends {:.1} ms after the launcher",
            round.ready, round.launcher.rss, round.ping, round.monitor_exit
        );
        rounds.push(round);
    }
    let title = format!("median of {ROUNDS} launchers, uid 107");
    print_table(&title, &rows(&rounds, &virsh));
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

/// `stock` is KubeVirt's own launcher, where somebody has it.
async fn print_commands(stock: Option<LauncherProgram>) -> Result<()> {
    let virsh = process_memory::idle_virsh()?;
    let ours = RunningVm::measure(&LauncherProgram::Ours).await?;
    let title = "a launcher whose VM runs with an agent, bare HTTP/2 client, p50";
    let mut rows = running_rows(&ours, &virsh);
    if let Some(stock) = stock {
        let stock = RunningVm::measure(&stock).await?;
        for (row, stock) in rows.iter_mut().zip(running_rows(&stock, &virsh)) {
            row.reference = format!("{}, measured here", stock.ours);
        }
    }
    print_table(&format!("{title} (load {})", load()?), &rows);
    Ok(())
}

/// What is measured while a VM runs.
struct RunningVm {
    calls: running_vm_calls::CallTimes,
    /// Milliseconds from the request to the notification of the disk.
    attach: f64,
}

impl RunningVm {
    /// What measuring takes, about.
    const MINUTES: u32 = 4;

    async fn measure(program: &LauncherProgram) -> Result<RunningVm> {
        println!("{program}: a running VM, {} minutes", RunningVm::MINUTES);
        Ok(RunningVm {
            calls: running_vm_calls::measure(program).await?,
            attach: disk_attach::measure(program).await?,
        })
    }
}

/// The machine's load averages, which explain a slow run.
fn load() -> Result<String> {
    let text = std::fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

fn rows(rounds: &[LauncherCycle], virsh: &process_memory::Memory) -> Vec<Row> {
    let of = |figure: fn(&LauncherCycle) -> f64| median(rounds.iter().map(figure).collect());
    let rss = of(|round| round.launcher.rss);
    vec![
        Row {
            what: "exec -> ready socket, one hook, nothing cached",
            ours: format!("{:.0} ms", of(|round| round.ready)),
            goal: "<= 400 ms",
            reference: "857 ms (sidecar already running)".to_owned(),
        },
        Row {
            what: "launcher idle, one hook: RSS",
            ours: format!("{rss:.1} MB = {:.2} x idle virsh", rss / virsh.rss),
            goal: "<= 1.6 x",
            reference: "60 MB + 18 MB a sidecar".to_owned(),
        },
        Row {
            what: "launcher idle, one hook: anonymous memory",
            ours: format!("{:.1} MB", of(|round| round.launcher.anonymous)),
            goal: "<= 8 MB",
            reference: "10 MB".to_owned(),
        },
        Row {
            what: "monitor: RSS",
            ours: format!("{:.1} MB", of(|round| round.monitor.rss)),
            goal: "<= 3 MB",
            reference: "8 MB".to_owned(),
        },
        Row {
            what: "Ping p50",
            ours: format!("{:.0} us", of(|round| round.ping)),
            goal: "<= 124 us",
            reference: "124 us".to_owned(),
        },
        Row {
            what: "launcher's exit -> monitor's exit",
            ours: format!("{:.1} ms", of(|round| round.monitor_exit)),
            goal: "<= 100 ms",
            reference: "7800 ms".to_owned(),
        },
    ]
}

fn running_rows(
    RunningVm {
        calls: running,
        attach,
    }: &RunningVm,
    virsh: &process_memory::Memory,
) -> Vec<Row> {
    let rss = running.idle.memory.rss;
    let milliseconds = |what, milliseconds: f64, goal, reference: &str| Row {
        what,
        ours: format!("{milliseconds:.1} ms"),
        goal,
        reference: reference.to_owned(),
    };
    let row = |what, microseconds: f64, goal, reference: &str| Row {
        what,
        ours: format!("{microseconds:.0} us"),
        goal,
        reference: reference.to_owned(),
    };
    vec![
        row("Ping", running.ping, "<= 90 us", "92 us"),
        row("GetDomainStats", running.stats, "<= 250 us", "177 us"),
        row("GetDomain", running.domain, "<= 700 us", "1329 us"),
        row("GetGuestInfo", running.guest_info, "", "180 us"),
        row("GetScreenshot", running.screenshot, "<= 8000 us", "8343 us"),
        row(
            "SyncVirtualMachine, nothing changed",
            running.sync,
            "<= 900 us",
            "1494 us (two disks)",
        ),
        row(
            "SyncVirtualMachine, 20 claims, 4 interfaces, nothing changed",
            running.large_sync,
            "<= 1500 us",
            "",
        ),
        milliseconds(
            "attach of a disk: request -> notification",
            *attach,
            "<= 32 ms",
            "32 ms, and again at 36 ms",
        ),
        Row {
            what: "launcher, VM running, agent polled: RSS",
            ours: format!("{rss:.1} MB = {:.2} x idle virsh", rss / virsh.rss),
            goal: "<= 1.7 x",
            reference: "68 MB".to_owned(),
        },
        milliseconds(
            "launcher, nobody asks: processor time in a minute",
            running.idle.cpu,
            "<= 30 ms",
            "",
        ),
    ]
}

fn migration_rows(measured: &migrations::MigrationMedians) -> Vec<Row> {
    let row = |what, milliseconds: f64, goal, reference: &str| Row {
        what,
        ours: format!("{milliseconds:.1} ms"),
        goal,
        reference: reference.to_owned(),
    };
    let (idle, dirtying) = (measured.idle, measured.dirtying);
    vec![
        row(
            "idle guest: request -> EndTimestamp of the target",
            idle.request_to_end,
            "<= 1400 ms",
            "1100-1700 ms",
        ),
        row(
            "idle guest: downtime",
            idle.downtime,
            "<= 100 ms",
            "34-192 ms",
        ),
        row(
            "guest that dirties memory: request -> EndTimestamp",
            dirtying.request_to_end,
            "",
            "",
        ),
        row(
            "guest that dirties memory: downtime",
            dirtying.downtime,
            "",
            "",
        ),
        row(
            "cancellation in the transfer -> EndTimestamp of the source",
            measured.cancel,
            "<= 400 ms",
            "338 ms",
        ),
        row(
            "libvirt's hook of the target, no module",
            measured.no_hook,
            "",
            "",
        ),
        row("each module more", measured.hook, "<= 10 ms", ""),
    ]
}

fn serve_rows(served: &served_hook::ServedHook) -> Vec<Row> {
    let row = |what, ours, goal, reference: &str| Row {
        what,
        ours,
        goal,
        reference: reference.to_owned(),
    };
    vec![
        row(
            "exec -> socket, the module compiled",
            format!("{:.0} ms", served.ready),
            "",
            "",
        ),
        row(
            "idle: RSS",
            format!("{:.1} MB", served.idle.rss),
            "<= 16 MB",
            "18-24 MB a sidecar",
        ),
        row(
            "idle: anonymous memory",
            format!("{:.1} MB", served.idle.anonymous),
            "",
            "",
        ),
        row(
            "after 1000 calls: RSS",
            format!("{:.1} MB", served.used.rss),
            "",
            "",
        ),
        row(
            "OnDefineDomain through a fresh connection, p50",
            format!("{:.0} us", served.p50),
            "<= 600 us",
            "1050 us",
        ),
        row("  p99", format!("{:.0} us", served.p99), "", ""),
        row(
            "the compiling child's peak memory",
            format!("{:.1} MB", served.compiling),
            "",
            "",
        ),
    ]
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

fn print_table(title: &str, rows: &[Row]) {
    println!("\n{title}, on this machine:");
    println!("| what | measured | goal | stock virt-launcher |");
    println!("|---|---|---|---|");
    for row in rows {
        println!(
            "| {} | {} | {} | {} |",
            row.what, row.ours, row.goal, row.reference
        );
    }
}
