//! libvirt's bulk statistics (`vcpu.0.time`, `net.1.rx.bytes`...) sorted into [`GuestStats`].

use crate::event::Figure;
use crate::stats::{
    BlockStats, CpuStats, DirtyRateStats, GuestStats, NetStats, RequestStats, TrafficStats,
    VcpuStats,
};

// Above what any hypervisor has; a daemon that counts further is not believed.
const MOST: usize = 8192;
// virVcpuState; libvirt says nothing at all about a virtual CPU that is not plugged in.
const OFFLINE: i32 = 0;

impl GuestStats {
    /// From what libvirt reports; unknown names are left out.
    pub fn from_figures(name: &str, uuid: &str, figures: &[(String, Figure)]) -> Self {
        let mut stats = GuestStats {
            name: name.to_owned(),
            uuid: uuid.to_owned(),
            ..GuestStats::default()
        };
        for (name, figure) in figures {
            place(&mut stats, name, figure);
        }
        for vcpu in &mut stats.vcpus {
            if *vcpu == VcpuStats::default() {
                vcpu.state = Some(OFFLINE);
            }
        }
        stats
    }
}

fn place(stats: &mut GuestStats, name: &str, figure: &Figure) {
    let Some((group, rest)) = name.split_once('.') else {
        return;
    };
    match group {
        "cpu" => cpu(&mut stats.cpu, rest, figure),
        "balloon" if rest == "current" => stats.memory.total = figure.as_u64(),
        "vcpu" if rest == "maximum" => reserve(&mut stats.vcpus, figure),
        "vcpu" => indexed(&mut stats.vcpus, rest, |item, rest| {
            vcpu(item, rest, figure)
        }),
        "net" if rest == "count" => reserve(&mut stats.nets, figure),
        "net" => indexed(&mut stats.nets, rest, |item, rest| net(item, rest, figure)),
        "block" if rest == "count" => reserve(&mut stats.blocks, figure),
        "block" => indexed(&mut stats.blocks, rest, |item, rest| {
            block(item, rest, figure)
        }),
        "dirtyrate" => dirty_rate(&mut stats.dirty_rate, rest, figure),
        _ => {}
    }
}

fn reserve<T: Default>(list: &mut Vec<T>, count: &Figure) {
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

fn cpu(cpu: &mut CpuStats, name: &str, figure: &Figure) {
    match name {
        "time" => cpu.time = figure.as_u64(),
        "user" => cpu.user = figure.as_u64(),
        "system" => cpu.system = figure.as_u64(),
        _ => {}
    }
}

fn vcpu(vcpu: &mut VcpuStats, name: &str, figure: &Figure) {
    match name {
        "state" => vcpu.state = small(figure),
        "time" => vcpu.time = figure.as_u64(),
        "wait" => vcpu.wait = figure.as_u64(),
        "delay" => vcpu.delay = figure.as_u64(),
        _ => {}
    }
}

fn net(net: &mut NetStats, name: &str, figure: &Figure) {
    match name.split_once('.') {
        Some(("rx", rest)) => traffic(&mut net.rx, rest, figure),
        Some(("tx", rest)) => traffic(&mut net.tx, rest, figure),
        None if name == "name" => net.name = text(figure),
        _ => {}
    }
}

fn traffic(traffic: &mut TrafficStats, name: &str, figure: &Figure) {
    match name {
        "bytes" => traffic.bytes = figure.as_u64(),
        "pkts" => traffic.packets = figure.as_u64(),
        "errs" => traffic.errors = figure.as_u64(),
        "drop" => traffic.drops = figure.as_u64(),
        _ => {}
    }
}

fn block(block: &mut BlockStats, name: &str, figure: &Figure) {
    match name.split_once('.') {
        Some(("rd", rest)) => requests(&mut block.reads, rest, figure),
        Some(("wr", rest)) => requests(&mut block.writes, rest, figure),
        Some(("fl", rest)) => requests(&mut block.flushes, rest, figure),
        _ => match name {
            "name" => block.name = text(figure),
            "path" => block.path = text(figure),
            "backingIndex" => block.backing_index = small(figure),
            "errors" => block.errors = figure.as_u64(),
            "allocation" => block.allocation = figure.as_u64(),
            "capacity" => block.capacity = figure.as_u64(),
            "physical" => block.physical = figure.as_u64(),
            _ => {}
        },
    }
}

fn requests(requests: &mut RequestStats, name: &str, figure: &Figure) {
    match name {
        "reqs" => requests.requests = figure.as_u64(),
        "bytes" => requests.bytes = figure.as_u64(),
        "times" => requests.nanoseconds = figure.as_u64(),
        _ => {}
    }
}

fn dirty_rate(rate: &mut DirtyRateStats, name: &str, figure: &Figure) {
    match name {
        "calc_status" => rate.status = small(figure),
        "calc_start_time" => rate.start = figure.as_i64(),
        "calc_period" => rate.period = small(figure),
        "megabytes_per_second" => rate.mib_per_second = figure.as_i64(),
        _ => {}
    }
}

fn small<T: TryFrom<i64>>(figure: &Figure) -> Option<T> {
    T::try_from(figure.as_i64()?).ok()
}

fn text(figure: &Figure) -> Option<String> {
    figure.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(figures: &[(&str, Figure)]) -> GuestStats {
        let figures: Vec<_> = figures
            .iter()
            .map(|(name, figure)| ((*name).to_owned(), figure.clone()))
            .collect();
        GuestStats::from_figures("default_vm", "u", &figures)
    }

    #[test]
    fn figures_find_their_fields() {
        let stats = read(&[
            ("cpu.time", Figure::Unsigned(540)),
            ("balloon.current", Figure::Unsigned(131_072)),
            ("vcpu.current", Figure::Unsigned(1)),
            ("vcpu.maximum", Figure::Unsigned(2)),
            ("vcpu.0.state", Figure::Signed(1)),
            ("net.count", Figure::Unsigned(1)),
            ("net.0.name", Figure::Text("tap0".into())),
            ("net.0.rx.pkts", Figure::Unsigned(7)),
            ("block.count", Figure::Unsigned(1)),
            ("block.0.name", Figure::Text("vda".into())),
            ("block.0.rd.times", Figure::Unsigned(9)),
            ("block.0.fl.reqs", Figure::Unsigned(0)),
            ("dirtyrate.calc_status", Figure::Signed(0)),
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
    fn absurd_counts_and_unknown_names_are_left_out() {
        let stats = read(&[
            ("net.count", Figure::Unsigned(u64::MAX)),
            ("net.99999999999.rx.bytes", Figure::Unsigned(1)),
            ("net.18446744073709551615.rx.bytes", Figure::Unsigned(1)),
            ("block.x.name", Figure::Text("vda".into())),
            ("perf.cmt", Figure::Unsigned(1)),
            ("vcpu", Figure::Unsigned(1)),
        ]);
        assert_eq!(stats, read(&[]));
    }
}
