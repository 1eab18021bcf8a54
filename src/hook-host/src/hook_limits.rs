//! Limits of hooks: deadlines, memory, sizes, and limits of compiling a module.

use std::time::Duration;

const MIB: usize = 1 << 20;

/// Limits of one hook: time, memory and sizes. `Default` has the launcher's values, which are noted at each field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Deadline of one call of a WASM hook, host functions included: 2 s.
    pub call_deadline: Duration,
    /// Deadline of all WASM hooks of one hook point together: 15 s, because virt-handler waits 20 s for a Sync.
    /// Time in sidecars does not count, because each of them has 60 s in KubeVirt.
    pub chain_deadline: Duration,
    /// Deadline of all calls at OnAttachDevice for the devices of one request together: 10 s.
    pub attach_deadline: Duration,
    /// Deadline of one call of a gRPC sidecar: 60 s, as in KubeVirt.
    pub sidecar_deadline: Duration,
    /// How long to wait for a plugin's socket to appear: 30 s, as in KubeVirt.
    pub plugin_socket_timeout: Duration,
    /// Maximum size of all linear memories of one call together, in bytes: 64 MiB.
    pub memory: usize,
    /// Maximum number of table elements of one call: 100 000.
    pub table_elements: usize,
    /// Maximum size of the input, and of the output, of a call, in bytes: 4 MiB, gRPC's default limit.
    pub output: usize,
    /// Maximum size of log lines and standard streams of one call, in bytes: 64 KiB. The rest is dropped.
    pub log: usize,
    /// Maximum size of a module file in bytes: 32 MiB.
    pub module: usize,
    /// Maximum wall-clock time to compile one module: 3 min. On few or busy CPUs, a module of 20 MB, such as one with
    /// Python, needs more wall-clock time than the CPU time below.
    pub compile_deadline: Duration,
    /// Maximum CPU time to compile one module, per CPU that may be used: 30 s, and 120 s in debug builds, whose compiler
    /// needs four times as long or more.
    pub compile_cpu_time: Duration,
    /// Maximum memory of a compile child, and of all that run at once together, in bytes: 1 GiB.
    pub compile_memory: usize,
    /// Maximum number of threads of the compile child, and at most one per CPU: 4. More threads gain
    /// little, and each needs its own memory.
    pub compile_threads: usize,
    /// Whether modules are compiled where the compile child cannot be confined: no.
    pub compile_unconfined: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call_deadline: Duration::from_secs(2),
            chain_deadline: Duration::from_secs(15),
            attach_deadline: Duration::from_secs(10),
            sidecar_deadline: Duration::from_secs(60),
            plugin_socket_timeout: Duration::from_secs(30),
            memory: 64 * MIB,
            table_elements: 100_000,
            output: 4 * MIB,
            log: 64 << 10,
            module: 32 * MIB,
            compile_deadline: Duration::from_secs(180),
            compile_cpu_time: Duration::from_secs(if cfg!(debug_assertions) { 120 } else { 30 }),
            compile_memory: 1024 * MIB,
            compile_threads: 4,
            compile_unconfined: false,
        }
    }
}
