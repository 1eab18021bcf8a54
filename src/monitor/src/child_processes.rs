//! Adopts, reaps and lists the monitor's child processes.

use std::fs;
use std::io;

use rustix::process::{Pid, WaitOptions, WaitStatus, getpid, set_child_subreaper, wait};

/// Makes orphaned processes children of the monitor. For PID 1 the kernel does this anyway.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    let own_pid = getpid();
    if own_pid.is_init() {
        Ok(())
    } else {
        Ok(set_child_subreaper(Some(own_pid))?)
    }
}

/// Reaps all children that have ended. Returns the exit code of `awaited` if it is among them.
pub(crate) fn reap(awaited: Pid) -> Option<u8> {
    let mut code = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == awaited {
            code = Some(exit_code(status));
        }
    }
    code
}

/// Reaps all children that have ended.
pub(crate) fn reap_all() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// The exit code; as in shells, 128 plus the signal's number for a process that a signal has ended.
fn exit_code(status: WaitStatus) -> u8 {
    let code = status
        .exit_status()
        .or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code & 0xff).ok())
        .unwrap_or(1)
}

/// The running processes that the monitor may have to end, with the file name of their program: as PID 1 all processes,
/// otherwise the monitor's own children.
pub(crate) fn list() -> Vec<(Pid, String)> {
    let own_pid = getpid();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries.flatten().filter_map(|entry| {
        entry
            .file_name()
            .to_str()?
            .parse()
            .ok()
            .and_then(Pid::from_raw)
    });
    pids.filter(|pid| *pid != own_pid && (own_pid.is_init() || parent(*pid) == Some(own_pid)))
        .filter_map(|pid| Some((pid, program_name(pid)?)))
        .collect()
}

/// The parent, which is field 4 of `/proc/PID/stat`. The name in field 2 is in parentheses and may contain anything.
fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    Pid::from_raw(after_name.split_whitespace().nth(1)?.parse().ok()?)
}

/// The file name of the process's program; `None` for zombies and kernel threads, whose command line is empty.
pub(crate) fn program_name(pid: Pid) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let program = line
        .split(|byte| *byte == 0)
        .next()
        .filter(|program| !program.is_empty())?;
    let name = program.rsplit(|byte| *byte == b'/').next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}
