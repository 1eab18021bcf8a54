//! What a launcher costs while its VM runs, its agent is polled and nobody asks for anything.

use std::time::Duration;

use anyhow::{Context, Result};
use tests::launcher_fixture::LauncherFixture;

use crate::process_memory::{self, Memory};

/// How long the processor time is counted.
const WATCHED: Duration = Duration::from_mins(2);
/// The clock ticks of `/proc/PID/stat`.
const TICKS_PER_SECOND: f64 = 100.0;

/// Of the launcher's process.
pub(crate) struct IdleCost {
    pub(crate) memory: Memory,
    /// Milliseconds of processor time in a minute.
    pub(crate) cpu: f64,
}

/// Of a launcher whose VM runs.
pub(crate) async fn measure(fixture: &LauncherFixture) -> Result<IdleCost> {
    let launcher = fixture.pod.process("virt-launcher");
    let launcher = launcher.context("no launcher runs")?;
    let pid = launcher.pid.as_raw_nonzero().get().unsigned_abs();
    let before = cpu_time(pid)?;
    tokio::time::sleep(WATCHED).await;
    let used = cpu_time(pid)? - before;
    Ok(IdleCost {
        memory: process_memory::of(pid)?,
        cpu: used * 1000.0 / (WATCHED.as_secs_f64() / 60.0),
    })
}

/// Seconds of processor time, of all threads there ever were.
fn cpu_time(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may hold spaces; fields 14 and 15 are the 12th and 13th after it.
    let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
    let times = fields.split_whitespace().skip(11).take(2);
    let ticks: Result<Vec<f64>, _> = times.map(str::parse::<f64>).collect();
    Ok(ticks?.iter().sum::<f64>() / TICKS_PER_SECOND)
}
