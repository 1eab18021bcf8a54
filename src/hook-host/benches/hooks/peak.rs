//! Memory as `/proc` tells it.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A field of `/proc/PID/status` in bytes.
pub(crate) fn status(pid: &str) -> Option<impl Fn(&str) -> Option<u64>> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(move |field: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(name, _)| *name == field)?;
        let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kib * 1024)
    })
}

/// The most that a child of this process had while `work` ran. The peak that a process reports of
/// its children (`ru_maxrss`) begins with what the parent had when it forked; the child's own
/// `VmHWM` does not, but is gone with the child: it is read every half a millisecond.
pub(crate) fn of_children(work: impl FnOnce()) -> Option<u64> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut peak = None;
            while !done.load(Ordering::Acquire) {
                peak = peak.max(
                    children()
                        .iter()
                        .filter_map(|pid| status(pid)?("VmHWM"))
                        .max(),
                );
                thread::sleep(Duration::from_micros(500));
            }
            peak
        });
        work();
        done.store(true, Ordering::Release);
        watch.join().ok().flatten()
    })
}

fn children() -> Vec<String> {
    let threads = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}
