//! Kills processes by their command line: processes that libvirt starts without reporting a pid.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Kills the processes whose command line, arguments ended by NUL, is `wanted`. Gives how many; blocking.
pub(crate) fn kill_matching(wanted: impl Fn(&[u8]) -> bool) -> usize {
    let Ok(processes) = fs::read_dir("/proc") else {
        return 0;
    };
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Pid::from_raw)
        .filter(|pid| kill_if(*pid, &wanted))
        .count()
}

/// The command line is read again once the process is held: a pid may have become another's.
fn kill_if(pid: Pid, wanted: impl Fn(&[u8]) -> bool) -> bool {
    let path = format!("/proc/{}/cmdline", pid.as_raw_nonzero());
    let is_wanted = || fs::read(&path).is_ok_and(|command_line| wanted(&command_line));
    if !is_wanted() {
        return false;
    }
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return false;
    };
    is_wanted() && pidfd_send_signal(&process, Signal::KILL).is_ok()
}
