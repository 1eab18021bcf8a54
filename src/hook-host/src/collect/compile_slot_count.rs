//! The number of modules that are loaded at once, and compiled if need be.

/// Maximum number of modules that are loaded at once. Each has a copy of its file in memory; compilations also share one
/// limit on memory.
const MAX_COMPILE_SLOTS: usize = 4;

/// The number of modules that are loaded at once if each compilation has `threads` threads. One compilation keeps all
/// CPUs up to this number of threads busy; the second uses them while the first starts, writes its code or is described.
pub(super) fn compile_slots(cpus: usize, threads: usize) -> usize {
    let least = cpus.clamp(1, 2);
    (cpus / threads.max(1)).clamp(least, MAX_COMPILE_SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_loaded_at_once_share_the_cpus() {
        for (cpus, threads, slots) in [
            (1, 4, 1),
            (2, 4, 2),
            (4, 4, 2),
            (4, 1, 4),
            (8, 4, 2),
            (64, 4, 4),
            (64, 0, 4),
        ] {
            assert_eq!(compile_slots(cpus, threads), slots, "{cpus} {threads}");
        }
    }
}
