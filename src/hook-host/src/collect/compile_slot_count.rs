//! The number of modules that are compiled at once.

/// Maximum number of compilations at once. Each may need 1 GiB of memory.
const MAX_COMPILE_SLOTS: usize = 4;

/// The number of modules that are compiled at once if each compilation has `threads` threads. More threads than CPUs
/// would only need more memory.
pub(super) fn compile_slots(cpus: usize, threads: usize) -> usize {
    (cpus / threads.max(1)).clamp(1, MAX_COMPILE_SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_compiled_at_once_share_the_cpus() {
        for (cpus, threads, slots) in [
            (1, 4, 1),
            (2, 4, 1),
            (4, 4, 1),
            (4, 1, 4),
            (8, 4, 2),
            (64, 4, 4),
            (64, 0, 4),
        ] {
            assert_eq!(compile_slots(cpus, threads), slots, "{cpus} {threads}");
        }
    }
}
