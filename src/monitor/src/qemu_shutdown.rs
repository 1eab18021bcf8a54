//! Shuts down a QEMU that outlives virt-launcher: SIGTERM, then a bounded wait.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{child_processes, json_log_lines};

/// How long QEMU may take to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Sends SIGTERM to every QEMU that still runs, and waits until all have ended, for [`SHUTDOWN_TIMEOUT`] at most. The
/// kernel kills the others when the pod ends.
pub(crate) fn end_survivors() {
    let survivors = survivors();
    if survivors.is_empty() {
        return;
    }
    json_log_lines::info("Killing QEMU gracefully.");
    for pid in &survivors {
        if let Err(error) = kill_process(*pid, Signal::TERM) {
            json_log_lines::error(&format!("signalling QEMU, process {pid}: {error}"));
        }
    }
    if !wait_for_end(&survivors) {
        json_log_lines::error(&format!("QEMU has not ended within {SHUTDOWN_TIMEOUT:?}"));
    }
}

fn survivors() -> Vec<Pid> {
    child_processes::reap_all();
    child_processes::list()
        .into_iter()
        .filter(|(_, name)| is_qemu(name))
        .map(|(pid, _)| pid)
        .collect()
}

fn wait_for_end(pids: &[Pid]) -> bool {
    let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
    loop {
        child_processes::reap_all();
        let alive =
            |pid: &&Pid| child_processes::program_name(**pid).is_some_and(|name| is_qemu(&name));
        if pids.iter().find(alive).is_none() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Whether the program is QEMU. Distributions call it `qemu-system-ARCHITECTURE` or `qemu-kvm`.
fn is_qemu(name: &str) -> bool {
    name.starts_with("qemu-system") || name.starts_with("qemu-kvm")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_qemu_programs_are_qemu() {
        assert!(is_qemu("qemu-system-x86_64") && is_qemu("qemu-kvm"));
        assert!(!is_qemu("virtqemud") && !is_qemu("qemu-img") && !is_qemu("qemu-ga"));
    }
}
