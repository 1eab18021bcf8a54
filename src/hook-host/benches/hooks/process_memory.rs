//! Memory of a process, from `/proc`.

use std::fs;

/// A field of `/proc/PID/status` in bytes.
pub(crate) fn of(pid: &str) -> Option<impl Fn(&str) -> Option<u64>> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(move |field: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(name, _)| *name == field)?;
        let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kib * 1024)
    })
}
