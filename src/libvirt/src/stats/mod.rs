//! A domain's statistics. Values that libvirt did not report are `None`, never zero.

mod bulk_stats;

use virt_sys as sys;

/// The result of [`Domain::stats`](crate::Domain::stats).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DomainStats {
    /// The domain's name.
    pub name: String,
    /// The domain's UUID.
    pub uuid: String,
    /// Processor time of the whole domain.
    pub cpu: CpuStats,
    /// Memory, as QEMU's balloon and the host report it.
    pub memory: MemoryStats,
    /// The virtual CPUs by number. An offline one has state 0 and no other value.
    pub vcpus: Vec<VcpuStats>,
    /// The network interfaces, in the domain's order.
    pub nets: Vec<NetStats>,
    /// The disks, in the domain's order.
    pub blocks: Vec<BlockStats>,
    /// For each virtual CPU, whether it may run on each host CPU. `None` if the driver does not report that.
    pub cpu_map: Option<Vec<Vec<bool>>>,
    /// The last measurement of the dirty rate.
    pub dirty_rate: DirtyRateStats,
}

/// Nanoseconds of processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStats {
    /// In total.
    pub time: Option<u64>,
    /// In user mode.
    pub user: Option<u64>,
    /// In kernel mode.
    pub system: Option<u64>,
}

/// Sizes in KiB, and two counts of page faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Memory that the guest does not use.
    pub unused: Option<u64>,
    /// The guest's reclaimable caches.
    pub cached: Option<u64>,
    /// Memory that the guest has in total.
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
    /// Page faults that did not need the disk.
    pub minor_faults: Option<u64>,
    /// Memory that the guest can use without swapping.
    pub usable: Option<u64>,
    /// The domain's memory now (`balloon.current`).
    pub total: Option<u64>,
}

/// One virtual CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VcpuStats {
    /// `virVcpuState`: 0 is offline, 1 running, 2 blocked.
    pub state: Option<i32>,
    /// Nanoseconds that it ran.
    pub time: Option<u64>,
    /// Nanoseconds that it waited for I/O.
    pub wait: Option<u64>,
    /// Nanoseconds that it was runnable and did not run.
    pub delay: Option<u64>,
}

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetStats {
    /// The host device's name, e.g. `tap0`.
    pub name: Option<String>,
    /// Traffic that the guest receives.
    pub rx: TrafficStats,
    /// Traffic that the guest sends.
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
    /// The index in the backing chain.
    pub backing_index: Option<u32>,
    /// The source's path.
    pub path: Option<String>,
    /// Reads.
    pub reads: RequestStats,
    /// Writes.
    pub writes: RequestStats,
    /// Flushes, which transfer no bytes.
    pub flushes: RequestStats,
    /// Errors (Xen only).
    pub errors: Option<u64>,
    /// The highest offset written, in bytes.
    pub allocation: Option<u64>,
    /// The size that the guest sees, in bytes.
    pub capacity: Option<u64>,
    /// The size of the file or device, in bytes.
    pub physical: Option<u64>,
}

/// One kind of request to a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestStats {
    /// The number of requests.
    pub requests: Option<u64>,
    /// The bytes that were transferred.
    pub bytes: Option<u64>,
    /// The nanoseconds that the requests took.
    pub nanoseconds: Option<u64>,
}

/// The dirty rate: how fast the guest writes to its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtyRateStats {
    /// `virDomainDirtyRateStatus`: 0 is not started, 1 [measuring](Self::MEASURING), 2 [measured](Self::MEASURED).
    pub status: Option<i32>,
    /// When the measurement started, in seconds of the host's monotonic clock.
    pub start: Option<i64>,
    /// How long the measurement takes, in seconds.
    pub period: Option<i32>,
    /// The result in MiB/s.
    pub mib_per_second: Option<i64>,
}

impl DirtyRateStats {
    /// The status while a measurement runs.
    pub const MEASURING: i32 = sys::VIR_DOMAIN_DIRTYRATE_MEASURING.cast_signed();
    /// The status once a measurement is complete.
    pub const MEASURED: i32 = sys::VIR_DOMAIN_DIRTYRATE_MEASURED.cast_signed();
}
