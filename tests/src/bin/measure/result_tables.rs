//! The tables that `measure` prints, with the goals and the reference's figures.

use crate::launcher_without_vm::LauncherWithoutVm;
use crate::process_memory::ProcessMemory;
use crate::{RunningVm, median, migrations, served_hook};

/// A row of a table.
pub(crate) struct Row {
    pub(crate) measurement: &'static str,
    pub(crate) measured: String,
    pub(crate) goal: &'static str,
    pub(crate) reference: String,
}

pub(crate) fn launcher_rows(rounds: &[LauncherWithoutVm], virsh: &ProcessMemory) -> Vec<Row> {
    let of = |figure: fn(&LauncherWithoutVm) -> f64| median(rounds.iter().map(figure).collect());
    let rss = of(|round| round.launcher.rss);
    vec![
        Row {
            measurement: "exec -> ready socket, one hook, nothing cached",
            measured: format!("{:.0} ms", of(|round| round.ready)),
            goal: "<= 400 ms",
            reference: "857 ms (sidecar already running)".to_owned(),
        },
        Row {
            measurement: "launcher idle, one hook: RSS",
            measured: format!("{rss:.1} MB = {:.2} x idle virsh", rss / virsh.rss),
            goal: "<= 1.6 x",
            reference: "60 MB + 18 MB a sidecar".to_owned(),
        },
        Row {
            measurement: "launcher idle, one hook: anonymous memory",
            measured: format!("{:.1} MB", of(|round| round.launcher.anonymous)),
            goal: "<= 8 MB",
            reference: "10 MB".to_owned(),
        },
        Row {
            measurement: "monitor: RSS",
            measured: format!("{:.1} MB", of(|round| round.monitor.rss)),
            goal: "<= 3 MB",
            reference: "8 MB".to_owned(),
        },
        Row {
            measurement: "Ping p50",
            measured: format!("{:.0} us", of(|round| round.ping)),
            goal: "<= 124 us",
            reference: "124 us".to_owned(),
        },
        Row {
            measurement: "launcher's exit -> monitor's exit",
            measured: format!("{:.1} ms", of(|round| round.monitor_exit)),
            goal: "<= 100 ms",
            reference: "7800 ms".to_owned(),
        },
    ]
}

pub(crate) fn running_rows(
    RunningVm {
        calls: running,
        attach,
    }: &RunningVm,
    virsh: &ProcessMemory,
) -> Vec<Row> {
    let rss = running.idle.memory.rss;
    let milliseconds = |measurement, milliseconds: f64, goal, reference: &str| Row {
        measurement,
        measured: format!("{milliseconds:.1} ms"),
        goal,
        reference: reference.to_owned(),
    };
    let row = |measurement, microseconds: f64, goal, reference: &str| Row {
        measurement,
        measured: format!("{microseconds:.0} us"),
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
            measurement: "launcher, VM running, agent polled: RSS",
            measured: format!("{rss:.1} MB = {:.2} x idle virsh", rss / virsh.rss),
            goal: "<= 1.7 x",
            reference: "68 MB".to_owned(),
        },
        milliseconds(
            "launcher, nobody asks: processor time in a minute",
            running.idle.cpu_ms_per_minute,
            "<= 30 ms",
            "",
        ),
    ]
}

pub(crate) fn migration_rows(measured: &migrations::MigrationMedians) -> Vec<Row> {
    let row = |measurement, milliseconds: f64, goal, reference: &str| Row {
        measurement,
        measured: format!("{milliseconds:.1} ms"),
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

pub(crate) fn serve_rows(served: &served_hook::ServedHook) -> Vec<Row> {
    let row = |measurement, measured, goal, reference: &str| Row {
        measurement,
        measured,
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
            format!("{:.1} MB", served.after_calls.rss),
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
            format!("{:.1} MB", served.compile_peak),
            "",
            "",
        ),
    ]
}

pub(crate) fn print_table(title: &str, rows: &[Row]) {
    println!("\n{title}, on this machine:");
    println!("| what | measured | goal | stock virt-launcher |");
    println!("|---|---|---|---|");
    for row in rows {
        println!(
            "| {} | {} | {} | {} |",
            row.measurement, row.measured, row.goal, row.reference
        );
    }
}
