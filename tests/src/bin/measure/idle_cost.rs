//! Measures memory and CPU time of an idle launcher: its VM runs and the guest agent is polled, but no client calls it.

use std::time::Duration;

use anyhow::{Context, Result};
use tests::launcher_fixture::LauncherFixture;

use crate::process_memory::{self, ProcessMemory};

/// The period over which CPU time is counted.
const MEASURED_PERIOD: Duration = Duration::from_mins(2);
/// The clock ticks per second in `/proc/PID/stat`.
const TICKS_PER_SECOND: f64 = 100.0;

/// The cost of the launcher's process.
pub(crate) struct IdleCost {
    pub(crate) memory: ProcessMemory,
    /// CPU time in milliseconds per minute.
    pub(crate) cpu_ms_per_minute: f64,
}

/// Measures a launcher whose VM runs.
pub(crate) async fn measure(fixture: &LauncherFixture) -> Result<IdleCost> {
    let launcher = fixture.pod.process("virt-launcher");
    let launcher = launcher.context("no launcher runs")?;
    let pid = launcher.pid.as_raw_nonzero().get().unsigned_abs();
    let before = cpu_time(pid)?;
    tokio::time::sleep(MEASURED_PERIOD).await;
    let used = cpu_time(pid)? - before;
    Ok(IdleCost {
        memory: process_memory::read(pid)?,
        cpu_ms_per_minute: used * 1000.0 / (MEASURED_PERIOD.as_secs_f64() / 60.0),
    })
}

/// The CPU time of a process in seconds, including threads that have ended.
fn cpu_time(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may hold spaces; fields 14 and 15 are the 12th and 13th after it.
    let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
    let times = fields.split_whitespace().skip(11).take(2);
    let ticks: Result<Vec<f64>, _> = times.map(str::parse::<f64>).collect();
    Ok(ticks?.iter().sum::<f64>() / TICKS_PER_SECOND)
}
