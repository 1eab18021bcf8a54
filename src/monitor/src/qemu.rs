//! A QEMU that outlives virt-launcher gets the chance to end in order.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{log, process};

/// How long it has.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked at.
const PAUSE: Duration = Duration::from_millis(20);

/// Sends every QEMU SIGTERM and waits until all have ended, for [`PATIENCE`] at most. What is left
/// after that ends with the pod.
pub(crate) fn end_survivors() {
    let survivors = survivors();
    if survivors.is_empty() {
        return;
    }
    log::info("Killing QEMU gracefully.");
    for pid in &survivors {
        if let Err(error) = kill_process(*pid, Signal::TERM) {
            log::error(&format!("signalling QEMU, process {pid}: {error}"));
        }
    }
    if !all_end(&survivors) {
        log::error(&format!("QEMU has not ended within {PATIENCE:?}"));
    }
}

fn survivors() -> Vec<Pid> {
    process::reap_all();
    process::processes()
        .into_iter()
        .filter(|(_, name)| is_qemu(name))
        .map(|(pid, _)| pid)
        .collect()
}

fn all_end(pids: &[Pid]) -> bool {
    let deadline = Instant::now() + PATIENCE;
    loop {
        process::reap_all();
        let alive = |pid: &&Pid| process::called(**pid).is_some_and(|name| is_qemu(&name));
        if pids.iter().find(alive).is_none() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Distributions name it after the architecture, or `qemu-kvm`.
fn is_qemu(name: &str) -> bool {
    name.starts_with("qemu-system") || name.starts_with("qemu-kvm")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qemu_and_nothing_else() {
        assert!(is_qemu("qemu-system-x86_64") && is_qemu("qemu-kvm"));
        assert!(!is_qemu("virtqemud") && !is_qemu("qemu-img") && !is_qemu("qemu-ga"));
    }
}
