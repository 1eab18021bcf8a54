//! Limits of a hook.

use std::time::Duration;

const MIB: usize = 1 << 20;

/// Limits of one hook: time, memory and bytes. `Default` is what the launcher uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Deadline of one call of a WASM hook, host functions included. 2 s.
    pub call_deadline: Duration,
    /// Deadline of all WASM hooks of one hook point together; virt-handler waits 20 s for a Sync. 15 s.
    /// Time in sidecars does not count: in KubeVirt each of them has 60 s.
    pub chain_deadline: Duration,
    /// Deadline of all calls at the attaches of one request together. 10 s.
    pub attach_deadline: Duration,
    /// Deadline of one call of a gRPC sidecar, as in KubeVirt. 60 s.
    pub sidecar_deadline: Duration,
    /// How long to wait for a plugin's socket, as in KubeVirt. 30 s.
    pub plugin_ready: Duration,
    /// All linear memories of one call together, in bytes. 64 MiB.
    pub memory: usize,
    /// All table elements of one call together. 100 000.
    pub table_elements: usize,
    /// Largest input and largest output of a call, in bytes each. 4 MiB, gRPC's default limit.
    pub output: usize,
    /// Log lines and standard streams of one call, in bytes; the rest is dropped. 64 KiB.
    pub log: usize,
    /// A module file, in bytes. 32 MiB.
    pub module: usize,
    /// Wall-clock time to compile one module. 3 min: on few or busy processors, the 20 MB that
    /// Python brings take longer than the processor time below.
    pub compile_deadline: Duration,
    /// Processor time to compile one module, per processor that may be used. 30 s.
    pub compile_processor_time: Duration,
    /// Memory of the process that compiles, in bytes. 1 GiB.
    pub compile_memory: usize,
    /// Threads of the process that compiles, at most one per processor. 4: more threads gain
    /// little, and each needs its own memory.
    pub compile_threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call_deadline: Duration::from_secs(2),
            chain_deadline: Duration::from_secs(15),
            attach_deadline: Duration::from_secs(10),
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
