//! Kills processes by their command line, for processes that libvirt starts without reporting a PID.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Kills each process for which `matches` returns true, and returns their number. `matches` gets the bytes of
/// `/proc/PID/cmdline`, in which every argument ends with NUL. Blocking.
pub(crate) fn kill_matching(matches: impl Fn(&[u8]) -> bool) -> usize {
    let Ok(processes) = fs::read_dir("/proc") else {
        return 0;
    };
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Pid::from_raw)
        .filter(|pid| kill_if(*pid, &matches))
        .count()
}

/// Kills the process if its command line matches. The command line is read again after the pidfd was opened, because
/// the PID may have been reused between the first read and the opening of the pidfd.
fn kill_if(pid: Pid, matches: impl Fn(&[u8]) -> bool) -> bool {
    let path = format!("/proc/{}/cmdline", pid.as_raw_nonzero());
    let is_match = || fs::read(&path).is_ok_and(|command_line| matches(&command_line));
    if !is_match() {
        return false;
    }
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return false;
    };
    is_match() && pidfd_send_signal(&process, Signal::KILL).is_ok()
}
