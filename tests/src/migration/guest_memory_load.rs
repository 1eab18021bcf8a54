//! A load in the guest that continuously dirties memory.

use anyhow::{Result, ensure};

use crate::launcher_fixture::LauncherFixture;
use crate::vmi_builder::Vmi;

/// Overwrites a file of some MiB in memory, and counts how often.
const LOAD_SCRIPT: &str = "n=0; while :; do cat /bin/busybox /bin/busybox /bin/busybox >/tmp/dirty; n=$((n + 1)); \
    echo $n >/tmp/rounds; usleep 20000; done";

/// Starts the load in the guest.
pub async fn dirty_memory(launcher: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let script = format!("setsid sh -c '{LOAD_SCRIPT}' </dev/null >/dev/null 2>&1 &");
    let arguments = ["-c", script.as_str()];
    let answer = launcher.commands.exec(vmi, "/bin/sh", &arguments).await?;
    ensure!(answer.exit_code == 0, "{answer:?}");
    Ok(())
}

/// The number of times that the load has overwritten its memory.
pub async fn rounds(launcher: &LauncherFixture, vmi: &Vmi) -> Result<u64> {
    let answer = launcher
        .commands
        .exec(vmi, "/bin/cat", &["/tmp/rounds"])
        .await?;
    Ok(answer.std_out.trim().parse()?)
}
