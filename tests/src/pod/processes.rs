//! The processes of one pod, found through the pid namespace they share.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// One process, by its ids as this machine sees them.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its id.
    pub pid: Pid,
    /// Its id inside the pod, where counting begins at 1.
    pub inner: i32,
    /// Its parent's id.
    pub parent: i32,
    /// Its name, cut at 15 bytes by the kernel.
    pub name: String,
}

impl Process {
    /// Sends SIGKILL.
    pub fn kill(&self) -> Result<()> {
        Ok(kill_process(self.pid, Signal::KILL)?)
    }

    /// One line of its `/proc/PID/status`, without its title: `VmRSS`, `Uid`, `CapAmb`.
    pub fn status(&self, title: &str) -> Option<String> {
        status(self.pid, title)
    }
}

fn proc(pid: Pid) -> PathBuf {
    Path::new("/proc").join(pid.as_raw_nonzero().to_string())
}

fn status(pid: Pid, title: &str) -> Option<String> {
    let text = fs::read_to_string(proc(pid).join("status")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(title)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// All processes in the pid namespace of `init`, zombies left out, in the order the pod numbered
/// them: the machine's own numbers begin again once they reach `pid_max`.
pub(super) fn of_pod(init: Pid) -> Vec<Process> {
    let Ok(namespace) = fs::read_link(proc(init).join("ns/pid")) else {
        return Vec::new();
    };
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut found: Vec<Process> = entries
        .filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .filter(|pid| fs::read_link(proc(*pid).join("ns/pid")).is_ok_and(|link| link == namespace))
        .filter_map(read)
        .collect();
    found.sort_by_key(|process| process.inner);
    found
}

fn read(pid: Pid) -> Option<Process> {
    if status(pid, "State")?.starts_with('Z') {
        return None;
    }
    Some(Process {
        pid,
        inner: status(pid, "NSpid")?
            .split_whitespace()
            .last()?
            .parse()
            .ok()?,
        parent: status(pid, "PPid")?.parse().ok()?,
        name: status(pid, "Name")?,
    })
}

/// The first child of `parent`: a pod's process 1 below the `unshare` that made it.
pub(super) fn first_child(parent: u32, deadline: Duration) -> Result<Pid> {
    let begin = Instant::now();
    let children = format!("/proc/{parent}/task/{parent}/children");
    loop {
        let text = fs::read_to_string(&children).unwrap_or_default();
        if let Some(pid) = text
            .split_whitespace()
            .next()
            .and_then(|pid| Pid::from_raw(pid.parse().ok()?))
        {
            return Ok(pid);
        }
        if begin.elapsed() > deadline {
            bail!("the pod did not start: unshare has no child after {deadline:?}");
        }
        thread::sleep(Duration::from_millis(2));
    }
}
