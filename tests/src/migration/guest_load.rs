//! A guest that writes to its memory all the time.

use anyhow::{Result, ensure};

use crate::launcher_fixture::LauncherFixture;
use crate::vmi_builder::Vmi;

/// Overwrites a file of some MiB in memory, and counts how often.
const LOOP: &str = "n=0; while :; do cat /bin/busybox /bin/busybox /bin/busybox >/tmp/dirty; n=$((n + 1)); \
    echo $n >/tmp/rounds; usleep 20000; done";

/// Starts the load in the guest.
pub async fn dirty_memory(launcher: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let script = format!("setsid sh -c '{LOOP}' </dev/null >/dev/null 2>&1 &");
    let arguments = ["-c", script.as_str()];
    let answer = launcher.commands.exec(vmi, "/bin/sh", &arguments).await?;
    ensure!(answer.exit_code == 0, "{answer:?}");
    Ok(())
}

/// How often the load has written its memory.
pub async fn rounds(launcher: &LauncherFixture, vmi: &Vmi) -> Result<u64> {
    let answer = launcher
        .commands
        .exec(vmi, "/bin/cat", &["/tmp/rounds"])
        .await?;
    Ok(answer.std_out.trim().parse()?)
}
