//! A domain's statistics. Values that libvirt did not report are `None`, never zero.

use virt_sys as sys;

use crate::typed_params::ParamValue;

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

// Conversion of libvirt's bulk statistics (`vcpu.0.time`, `net.1.rx.bytes`...) into [`DomainStats`].
//
// The names are literals: `virt-sys` has them only as C strings, in prefixes and suffixes without the index between.

/// Maximum number of virtual CPUs, interfaces or disks, above that of any hypervisor. A larger count or index is
/// ignored.
const MAX_LIST_LENGTH: usize = 8192;

impl DomainStats {
    /// The statistics from libvirt's parameters. Parameters with unknown names are ignored.
    pub fn from_typed_params(name: &str, uuid: &str, params: &[(String, ParamValue)]) -> Self {
        let mut stats = DomainStats {
            name: name.to_owned(),
            uuid: uuid.to_owned(),
            ..DomainStats::default()
        };
        for (name, value) in params {
            set_param(&mut stats, name, value);
        }
        for vcpu in &mut stats.vcpus {
            // libvirt reports nothing about a virtual CPU that is not plugged in.
            if *vcpu == VcpuStats::default() {
                vcpu.state = Some(sys::VIR_VCPU_OFFLINE.cast_signed());
            }
        }
        stats
    }
}

fn set_param(stats: &mut DomainStats, name: &str, value: &ParamValue) {
    let Some((group, rest)) = name.split_once('.') else {
        return;
    };
    match group {
        "cpu" => set_cpu(&mut stats.cpu, rest, value),
        "balloon" if rest == "current" => stats.memory.total = value.as_u64(),
        "vcpu" if rest == "maximum" => extend_to_count(&mut stats.vcpus, value),
        "vcpu" => set_indexed(&mut stats.vcpus, rest, |vcpu, rest| {
            set_vcpu(vcpu, rest, value)
        }),
        "net" if rest == "count" => extend_to_count(&mut stats.nets, value),
        "net" => set_indexed(&mut stats.nets, rest, |net, rest| set_net(net, rest, value)),
        "block" if rest == "count" => extend_to_count(&mut stats.blocks, value),
        "block" => set_indexed(&mut stats.blocks, rest, |block, rest| {
            set_block(block, rest, value)
        }),
        "dirtyrate" => set_dirty_rate(&mut stats.dirty_rate, rest, value),
        _ => {}
    }
}

fn extend_to_count<T: Default>(list: &mut Vec<T>, count: &ParamValue) {
    let count = count.as_u64().and_then(|count| usize::try_from(count).ok());
    extend(list, count.unwrap_or(0));
}

fn extend<T: Default>(list: &mut Vec<T>, length: usize) {
    if list.len() < length && length <= MAX_LIST_LENGTH {
        list.resize_with(length, T::default);
    }
}

fn set_indexed<T: Default>(list: &mut Vec<T>, name: &str, set: impl FnOnce(&mut T, &str)) {
    let Some((index, rest)) = name.split_once('.') else {
        return;
    };
    let Ok(index) = index.parse::<usize>() else {
        return;
    };
    extend(list, index.saturating_add(1));
    if let Some(item) = list.get_mut(index) {
        set(item, rest);
    }
}

fn set_cpu(cpu: &mut CpuStats, name: &str, value: &ParamValue) {
    match name {
        "time" => cpu.time = value.as_u64(),
        "user" => cpu.user = value.as_u64(),
        "system" => cpu.system = value.as_u64(),
        _ => {}
    }
}

fn set_vcpu(vcpu: &mut VcpuStats, name: &str, value: &ParamValue) {
    match name {
        "state" => vcpu.state = integer(value),
        "time" => vcpu.time = value.as_u64(),
        "wait" => vcpu.wait = value.as_u64(),
        "delay" => vcpu.delay = value.as_u64(),
        _ => {}
    }
}

fn set_net(net: &mut NetStats, name: &str, value: &ParamValue) {
    match name.split_once('.') {
        Some(("rx", rest)) => set_traffic(&mut net.rx, rest, value),
        Some(("tx", rest)) => set_traffic(&mut net.tx, rest, value),
        None if name == "name" => net.name = text(value),
        _ => {}
    }
}

fn set_traffic(traffic: &mut TrafficStats, name: &str, value: &ParamValue) {
    match name {
        "bytes" => traffic.bytes = value.as_u64(),
        "pkts" => traffic.packets = value.as_u64(),
        "errs" => traffic.errors = value.as_u64(),
        "drop" => traffic.drops = value.as_u64(),
        _ => {}
    }
}

fn set_block(block: &mut BlockStats, name: &str, value: &ParamValue) {
    match name.split_once('.') {
        Some(("rd", rest)) => set_requests(&mut block.reads, rest, value),
        Some(("wr", rest)) => set_requests(&mut block.writes, rest, value),
        Some(("fl", rest)) => set_requests(&mut block.flushes, rest, value),
        _ => match name {
            "name" => block.name = text(value),
            "path" => block.path = text(value),
            "backingIndex" => block.backing_index = integer(value),
            "errors" => block.errors = value.as_u64(),
            "allocation" => block.allocation = value.as_u64(),
            "capacity" => block.capacity = value.as_u64(),
            "physical" => block.physical = value.as_u64(),
            _ => {}
        },
    }
}

fn set_requests(requests: &mut RequestStats, name: &str, value: &ParamValue) {
    match name {
        "reqs" => requests.requests = value.as_u64(),
        "bytes" => requests.bytes = value.as_u64(),
        "times" => requests.nanoseconds = value.as_u64(),
        _ => {}
    }
}

fn set_dirty_rate(rate: &mut DirtyRateStats, name: &str, value: &ParamValue) {
    match name {
        "calc_status" => rate.status = integer(value),
        "calc_start_time" => rate.start = value.as_i64(),
        "calc_period" => rate.period = integer(value),
        "megabytes_per_second" => rate.mib_per_second = value.as_i64(),
        _ => {}
    }
}

fn integer<T: TryFrom<i64>>(value: &ParamValue) -> Option<T> {
    T::try_from(value.as_i64()?).ok()
}

fn text(value: &ParamValue) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats_from(params: &[(&str, ParamValue)]) -> DomainStats {
        let params: Vec<_> = params
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        DomainStats::from_typed_params("default_vm", "u", &params)
    }

    #[test]
    fn each_param_sets_its_field() {
        let stats = stats_from(&[
            ("cpu.time", ParamValue::Unsigned(540)),
            ("balloon.current", ParamValue::Unsigned(131_072)),
            ("vcpu.current", ParamValue::Unsigned(1)),
            ("vcpu.maximum", ParamValue::Unsigned(2)),
            ("vcpu.0.state", ParamValue::Signed(1)),
            ("net.count", ParamValue::Unsigned(1)),
            ("net.0.name", ParamValue::Text("tap0".into())),
            ("net.0.rx.pkts", ParamValue::Unsigned(7)),
            ("block.count", ParamValue::Unsigned(1)),
            ("block.0.name", ParamValue::Text("vda".into())),
            ("block.0.rd.times", ParamValue::Unsigned(9)),
            ("block.0.fl.reqs", ParamValue::Unsigned(0)),
            ("dirtyrate.calc_status", ParamValue::Signed(0)),
        ]);
        assert_eq!(stats.cpu.time, Some(540));
        assert_eq!(stats.cpu.user, None);
        assert_eq!(stats.memory.total, Some(131_072));
        assert_eq!(stats.vcpus.len(), 2);
        assert_eq!(stats.vcpus[0].state, Some(1));
        assert_eq!((stats.vcpus[1].state, stats.vcpus[1].time), (Some(0), None));
        assert_eq!(stats.nets[0].name.as_deref(), Some("tap0"));
        assert_eq!(stats.nets[0].rx.packets, Some(7));
        assert_eq!(stats.blocks[0].reads.nanoseconds, Some(9));
        assert_eq!(stats.blocks[0].flushes.requests, Some(0));
        assert_eq!(stats.dirty_rate.status, Some(0));
    }

    #[test]
    fn absurd_counts_and_unknown_names_are_ignored() {
        let stats = stats_from(&[
            ("net.count", ParamValue::Unsigned(u64::MAX)),
            ("net.99999999999.rx.bytes", ParamValue::Unsigned(1)),
            ("net.18446744073709551615.rx.bytes", ParamValue::Unsigned(1)),
            ("block.x.name", ParamValue::Text("vda".into())),
            ("perf.cmt", ParamValue::Unsigned(1)),
            ("vcpu", ParamValue::Unsigned(1)),
        ]);
        assert_eq!(stats, stats_from(&[]));
    }
}
