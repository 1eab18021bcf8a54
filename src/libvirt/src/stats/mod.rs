//! A domain's statistics, typed. What libvirt did not report is `None`, never zero.

mod bulk_stats;

/// Everything `Domain::stats` reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DomainStats {
    /// The domain's name.
    pub name: String,
    /// The domain's UUID.
    pub uuid: String,
    /// Processor time of the whole domain.
    pub cpu: CpuStats,
    /// Memory, as QEMU's balloon and the host see it.
    pub memory: MemoryStats,
    /// One per virtual CPU, by its number; an offline one has state 0 and nothing else.
    pub vcpus: Vec<VcpuStats>,
    /// One per network interface, in the domain's order.
    pub nets: Vec<NetStats>,
    /// One per disk (and per backing file, when asked for), in the domain's order.
    pub blocks: Vec<BlockStats>,
    /// Per virtual CPU, which host CPUs it may run on; none when libvirt could not say.
    pub cpu_map: Option<Vec<Vec<bool>>>,
    /// The last measurement of how fast the guest writes to its memory.
    pub dirty_rate: DirtyRateStats,
}

/// Nanoseconds of processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStats {
    /// All of it.
    pub time: Option<u64>,
    /// In user mode.
    pub user: Option<u64>,
    /// In kernel mode.
    pub system: Option<u64>,
}

/// KiB, except for the two fault counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Left unused by the guest.
    pub unused: Option<u64>,
    /// The guest's reclaimable caches.
    pub cached: Option<u64>,
    /// What the guest sees as its memory.
    pub available: Option<u64>,
    /// The balloon's current size.
    pub actual_balloon: Option<u64>,
    /// The QEMU process's resident set.
    pub rss: Option<u64>,
    /// Swapped in by the guest.
    pub swap_in: Option<u64>,
    /// Swapped out by the guest.
    pub swap_out: Option<u64>,
    /// Page faults that needed the disk.
    pub major_faults: Option<u64>,
    /// Page faults that did not.
    pub minor_faults: Option<u64>,
    /// What could be used without swapping.
    pub usable: Option<u64>,
    /// What the domain has now (`balloon.current`).
    pub total: Option<u64>,
}

/// One virtual CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VcpuStats {
    /// `virVcpuState`: 0 offline, 1 running, 2 blocked.
    pub state: Option<i32>,
    /// Nanoseconds run.
    pub time: Option<u64>,
    /// Nanoseconds waited for I/O.
    pub wait: Option<u64>,
    /// Nanoseconds spent runnable but not running.
    pub delay: Option<u64>,
}

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetStats {
    /// The host device's name, e.g. `tap0`.
    pub name: Option<String>,
    /// Received, from the guest's point of view.
    pub rx: TrafficStats,
    /// Sent.
    pub tx: TrafficStats,
}

/// One direction of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficStats {
    /// Bytes.
    pub bytes: Option<u64>,
    /// Packets.
    pub packets: Option<u64>,
    /// Packets with errors.
    pub errors: Option<u64>,
    /// Packets dropped.
    pub drops: Option<u64>,
}

/// One disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockStats {
    /// The target device's name, e.g. `vda`.
    pub name: Option<String>,
    /// The place in the backing chain.
    pub backing_index: Option<u32>,
    /// The source's path.
    pub path: Option<String>,
    /// Reads.
    pub reads: RequestStats,
    /// Writes.
    pub writes: RequestStats,
    /// Flushes (they move no bytes).
    pub flushes: RequestStats,
    /// Errors (Xen only).
    pub errors: Option<u64>,
    /// The highest offset written, in bytes.
    pub allocation: Option<u64>,
    /// What the guest sees, in bytes.
    pub capacity: Option<u64>,
    /// What the file or device takes, in bytes.
    pub physical: Option<u64>,
}

/// One kind of request to a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestStats {
    /// How many.
    pub requests: Option<u64>,
    /// Bytes moved.
    pub bytes: Option<u64>,
    /// Nanoseconds taken.
    pub nanoseconds: Option<u64>,
}

/// How fast the guest writes to its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtyRateStats {
    /// `virDomainDirtyRateStatus`: 0 not started, 1 measuring, 2 measured.
    pub status: Option<i32>,
    /// When it started, in seconds of the host's monotonic clock.
    pub start: Option<i64>,
    /// How long it took, in seconds.
    pub period: Option<i32>,
    /// MiB/s.
    pub mib_per_second: Option<i64>,
}
