//! Memory of a process, from `/proc/PID/status`.

use std::fs;

/// Returns a function from a field of `/proc/PID/status` to its value in bytes.
pub(crate) fn status_fields(pid: &str) -> Option<impl Fn(&str) -> Option<u64>> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(move |field: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(name, _)| *name == field)?;
        let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kib * 1024)
    })
}
