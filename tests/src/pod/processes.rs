//! The processes of one pod: those in the PID namespace of its process 1.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// A process of the pod.
#[derive(Clone, Debug)]
pub struct Process {
    /// The process's ID in this machine's PID namespace.
    pub pid: Pid,
    /// The process's ID in the pod's PID namespace.
    pub pod_pid: i32,
    /// The ID of the parent process in this machine's PID namespace.
    pub parent: i32,
    /// The process's name, of which the kernel keeps 15 bytes.
    pub name: String,
}

impl Process {
    /// Sends SIGKILL.
    pub fn kill(&self) -> Result<()> {
        Ok(kill_process(self.pid, Signal::KILL)?)
    }

    /// The value of one line of its `/proc/PID/status`, like `VmRSS`, `Uid` or `CapAmb`.
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

/// All processes in the PID namespace of `init` except zombies, sorted by their IDs in the pod: the IDs of this machine
/// start again after `pid_max`.
pub(super) fn processes_of_pod(init: Pid) -> Vec<Process> {
    let Ok(namespace) = fs::read_link(proc(init).join("ns/pid")) else {
        return Vec::new();
    };
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut processes: Vec<Process> = entries
        .filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .filter(|pid| fs::read_link(proc(*pid).join("ns/pid")).is_ok_and(|link| link == namespace))
        .filter_map(read)
        .collect();
    processes.sort_by_key(|process| process.pod_pid);
    processes
}

fn read(pid: Pid) -> Option<Process> {
    if status(pid, "State")?.starts_with('Z') {
        return None;
    }
    Some(Process {
        pid,
        pod_pid: status(pid, "NSpid")?
            .split_whitespace()
            .last()?
            .parse()
            .ok()?,
        parent: status(pid, "PPid")?.parse().ok()?,
        name: status(pid, "Name")?,
    })
}

/// Waits for the first child of `parent`, which is the pod's process 1 if `parent` is `unshare`.
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
