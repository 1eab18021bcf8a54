//! libvirt's bulk statistics (`vcpu.0.time`, `net.1.rx.bytes`...) sorted into [`DomainStats`].

use crate::stats::{
    BlockStats, CpuStats, DirtyRateStats, DomainStats, NetStats, RequestStats, TrafficStats,
    VcpuStats,
};
use crate::typed_params::ParamValue;

// Above what any hypervisor has; a daemon that counts further is not believed.
const MOST: usize = 8192;
// virVcpuState; libvirt says nothing at all about a virtual CPU that is not plugged in.
const OFFLINE: i32 = 0;

impl DomainStats {
    /// From what libvirt reports; unknown names are left out.
    pub fn from_typed_params(name: &str, uuid: &str, params: &[(String, ParamValue)]) -> Self {
        let mut stats = DomainStats {
            name: name.to_owned(),
            uuid: uuid.to_owned(),
            ..DomainStats::default()
        };
        for (name, value) in params {
            place(&mut stats, name, value);
        }
        for vcpu in &mut stats.vcpus {
            if *vcpu == VcpuStats::default() {
                vcpu.state = Some(OFFLINE);
            }
        }
        stats
    }
}

fn place(stats: &mut DomainStats, name: &str, value: &ParamValue) {
    let Some((group, rest)) = name.split_once('.') else {
        return;
    };
    match group {
        "cpu" => cpu(&mut stats.cpu, rest, value),
        "balloon" if rest == "current" => stats.memory.total = value.as_u64(),
        "vcpu" if rest == "maximum" => reserve(&mut stats.vcpus, value),
        "vcpu" => indexed(&mut stats.vcpus, rest, |item, rest| vcpu(item, rest, value)),
        "net" if rest == "count" => reserve(&mut stats.nets, value),
        "net" => indexed(&mut stats.nets, rest, |item, rest| net(item, rest, value)),
        "block" if rest == "count" => reserve(&mut stats.blocks, value),
        "block" => indexed(&mut stats.blocks, rest, |item, rest| {
            block(item, rest, value)
        }),
        "dirtyrate" => dirty_rate(&mut stats.dirty_rate, rest, value),
        _ => {}
    }
}

fn reserve<T: Default>(list: &mut Vec<T>, count: &ParamValue) {
    let count = count.as_u64().and_then(|count| usize::try_from(count).ok());
    grow(list, count.unwrap_or(0));
}

fn grow<T: Default>(list: &mut Vec<T>, length: usize) {
    if list.len() < length && length <= MOST {
        list.resize_with(length, T::default);
    }
}

fn indexed<T: Default>(list: &mut Vec<T>, name: &str, set: impl FnOnce(&mut T, &str)) {
    let Some((index, rest)) = name.split_once('.') else {
        return;
    };
    let Ok(index) = index.parse::<usize>() else {
        return;
    };
    grow(list, index.saturating_add(1));
    if let Some(item) = list.get_mut(index) {
        set(item, rest);
    }
}

fn cpu(cpu: &mut CpuStats, name: &str, value: &ParamValue) {
    match name {
        "time" => cpu.time = value.as_u64(),
        "user" => cpu.user = value.as_u64(),
        "system" => cpu.system = value.as_u64(),
        _ => {}
    }
}

fn vcpu(vcpu: &mut VcpuStats, name: &str, value: &ParamValue) {
    match name {
        "state" => vcpu.state = small(value),
        "time" => vcpu.time = value.as_u64(),
        "wait" => vcpu.wait = value.as_u64(),
        "delay" => vcpu.delay = value.as_u64(),
        _ => {}
    }
}

fn net(net: &mut NetStats, name: &str, value: &ParamValue) {
    match name.split_once('.') {
        Some(("rx", rest)) => traffic(&mut net.rx, rest, value),
        Some(("tx", rest)) => traffic(&mut net.tx, rest, value),
        None if name == "name" => net.name = text(value),
        _ => {}
    }
}

fn traffic(traffic: &mut TrafficStats, name: &str, value: &ParamValue) {
    match name {
        "bytes" => traffic.bytes = value.as_u64(),
        "pkts" => traffic.packets = value.as_u64(),
        "errs" => traffic.errors = value.as_u64(),
        "drop" => traffic.drops = value.as_u64(),
        _ => {}
    }
}

fn block(block: &mut BlockStats, name: &str, value: &ParamValue) {
    match name.split_once('.') {
        Some(("rd", rest)) => requests(&mut block.reads, rest, value),
        Some(("wr", rest)) => requests(&mut block.writes, rest, value),
        Some(("fl", rest)) => requests(&mut block.flushes, rest, value),
        _ => match name {
            "name" => block.name = text(value),
            "path" => block.path = text(value),
            "backingIndex" => block.backing_index = small(value),
            "errors" => block.errors = value.as_u64(),
            "allocation" => block.allocation = value.as_u64(),
            "capacity" => block.capacity = value.as_u64(),
            "physical" => block.physical = value.as_u64(),
            _ => {}
        },
    }
}

fn requests(requests: &mut RequestStats, name: &str, value: &ParamValue) {
    match name {
        "reqs" => requests.requests = value.as_u64(),
        "bytes" => requests.bytes = value.as_u64(),
        "times" => requests.nanoseconds = value.as_u64(),
        _ => {}
    }
}

fn dirty_rate(rate: &mut DirtyRateStats, name: &str, value: &ParamValue) {
    match name {
        "calc_status" => rate.status = small(value),
        "calc_start_time" => rate.start = value.as_i64(),
        "calc_period" => rate.period = small(value),
        "megabytes_per_second" => rate.mib_per_second = value.as_i64(),
        _ => {}
    }
}

fn small<T: TryFrom<i64>>(value: &ParamValue) -> Option<T> {
    T::try_from(value.as_i64()?).ok()
}

fn text(value: &ParamValue) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(params: &[(&str, ParamValue)]) -> DomainStats {
        let params: Vec<_> = params
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        DomainStats::from_typed_params("default_vm", "u", &params)
    }

    #[test]
    fn params_are_sorted_into_their_fields() {
        let stats = read(&[
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
        let stats = read(&[
            ("net.count", ParamValue::Unsigned(u64::MAX)),
            ("net.99999999999.rx.bytes", ParamValue::Unsigned(1)),
            ("net.18446744073709551615.rx.bytes", ParamValue::Unsigned(1)),
            ("block.x.name", ParamValue::Text("vda".into())),
            ("perf.cmt", ParamValue::Unsigned(1)),
            ("vcpu", ParamValue::Unsigned(1)),
        ]);
        assert_eq!(stats, read(&[]));
    }
}
