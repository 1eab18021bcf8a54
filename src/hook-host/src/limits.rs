//! What a hook may use.

use std::time::Duration;

const MIB: usize = 1 << 20;

/// What one hook may use: time, memory and bytes. `Default` is what the launcher runs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// One call of a WASM hook, the host's own calls included. 2 s.
    pub call_deadline: Duration,
    /// All WASM hooks of one hook point together; virt-handler gives a Sync 20 s. 15 s. What
    /// sidecars take does not count: they have had 60 s each since long before.
    pub chain_deadline: Duration,
    /// One call of a gRPC sidecar, as KubeVirt has it. 60 s.
    pub sidecar_deadline: Duration,
    /// A plugin's socket until it appears, as KubeVirt has it. 30 s.
    pub plugin_ready: Duration,
    /// All linear memories of one call together, in bytes. 64 MiB.
    pub memory: usize,
    /// All table elements of one call together. 100 000.
    pub table_elements: usize,
    /// What a call may be given and may give back, in bytes. 4 MiB, gRPC's own limit.
    pub output: usize,
    /// Log lines and standard streams of one call, in bytes; what is more is dropped. 64 KiB.
    pub log: usize,
    /// A module file, in bytes. 32 MiB.
    pub module: usize,
    /// Compiling one module, by the clock. 3 min: where processors are busy or few, the 20 MB that
    /// Python brings take longer than the time of the processors below.
    pub compile_deadline: Duration,
    /// Compiling one module, as time of each processor that it may use. 30 s.
    pub compile_processor_time: Duration,
    /// Memory of the process that compiles, in bytes. 1 GiB.
    pub compile_memory: usize,
    /// Threads of the process that compiles, at most as many as there are processors. 4: more gain
    /// little, and each has memory of its own.
    pub compile_threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call_deadline: Duration::from_secs(2),
            chain_deadline: Duration::from_secs(15),
            sidecar_deadline: Duration::from_secs(60),
            plugin_ready: Duration::from_secs(30),
            memory: 64 * MIB,
            table_elements: 100_000,
            output: 4 * MIB,
            log: 64 << 10,
            module: 32 * MIB,
            compile_deadline: Duration::from_secs(180),
            compile_processor_time: Duration::from_secs(30),
            compile_memory: 1024 * MIB,
            compile_threads: 4,
        }
    }
}
