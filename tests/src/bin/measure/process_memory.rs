//! How much memory a process holds, as the kernel accounts for it.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

/// Of one process, in MB (1,000,000 bytes).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// All resident pages, shared ones included.
    pub(crate) rss: f64,
    /// The resident pages that no file backs.
    pub(crate) anonymous: f64,
}

/// Of the process with this id.
pub(crate) fn of(pid: u32) -> Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).context(path)?;
    let figure = |title: &str| -> Option<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(title))?;
        Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? * 1024.0 / 1e6)
    };
    Ok(Memory {
        rss: figure("VmRSS").context("no VmRSS")?,
        anonymous: figure("RssAnon").context("no RssAnon")?,
    })
}

/// Of `virsh`, connected and idle: libvirt's client library is the floor of every client.
pub(crate) fn idle_virsh() -> Result<Memory> {
    let mut virsh = Command::new("virsh")
        .args(["--quiet", "--connect", "test:///default"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("virsh (package libvirt-clients)")?;
    std::thread::sleep(Duration::from_secs(1));
    let memory = of(virsh.id());
    let _ = virsh.kill();
    let _ = virsh.wait();
    memory
}
