//! Reads how much memory a process uses from `/proc/PID/status`.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

/// The memory of one process in MB (1,000,000 bytes).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessMemory {
    /// All resident pages, shared ones included.
    pub(crate) rss: f64,
    /// The resident pages that no file backs.
    pub(crate) anonymous: f64,
}

/// Reads the memory of the process with this ID.
pub(crate) fn read(pid: u32) -> Result<ProcessMemory> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).context(path)?;
    let figure = |title: &str| -> Option<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(title))?;
        Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? * 1024.0 / 1e6)
    };
    Ok(ProcessMemory {
        rss: figure("VmRSS").context("no VmRSS")?,
        anonymous: figure("RssAnon").context("no RssAnon")?,
    })
}

/// The memory of an idle `virsh` with a connection, which is the minimum of any client of libvirt's library.
pub(crate) fn idle_virsh() -> Result<ProcessMemory> {
    let mut virsh = Command::new("virsh")
        .args(["--quiet", "--connect", "test:///default"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("virsh (package libvirt-clients)")?;
    std::thread::sleep(Duration::from_secs(1));
    let memory = read(virsh.id());
    let _ = virsh.kill();
    let _ = virsh.wait();
    memory
}
