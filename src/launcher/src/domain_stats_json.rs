//! A domain's statistics as KubeVirt's JSON (`DomainStats` v1, which virt-handler decodes).
//!
//! KubeVirt's Go struct has no optional numbers: each value `X` has a boolean `XSet`.

use std::collections::BTreeMap;

use domain::libvirt_spec::Alias;
use domain_xml::Document;
use libvirt::{
    BlockStats, CpuStats, DirtyRateStats, DomainStats, MemoryStats, NetStats, RequestStats,
    TrafficStats, VcpuStats,
};
use serde_json::{Map, Value, json};

/// The guest's load averages, from its agent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Load {
    /// Over one minute.
    pub one: Option<f64>,
    /// Over five minutes.
    pub five: Option<f64>,
    /// Over fifteen minutes.
    pub fifteen: Option<f64>,
}

/// The progress of a migration, in bytes and bytes per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MigrationProgress {
    /// The total amount of data to transfer.
    pub total: Option<u64>,
    /// The amount of data transferred so far.
    pub processed: Option<u64>,
    /// The bandwidth of the memory transfer.
    pub memory_bps: Option<u64>,
    /// The amount of data still to be transferred.
    pub remaining: Option<u64>,
    /// The rate at which the guest writes to its memory.
    pub dirty_rate: Option<u64>,
}

/// The JSON of KubeVirt's `DomainStats`.
pub(crate) fn domain_stats(
    stats: &DomainStats,
    aliases: &DeviceAliases,
    load: &Load,
    migration: &MigrationProgress,
) -> Value {
    let nets: Vec<_> = stats.nets.iter().map(|stats| net(stats, aliases)).collect();
    let blocks: Vec<_> = stats
        .blocks
        .iter()
        .map(|stats| block(stats, aliases))
        .collect();
    json!({
        "Name": stats.name,
        "UUID": stats.uuid,
        "Cpu": cpu(&stats.cpu),
        "Memory": memory(&stats.memory),
        "MigrateDomainJobInfo": migration_progress(migration),
        "Vcpu": stats.vcpus.iter().map(vcpu).collect::<Vec<_>>(),
        "Net": nets,
        "Block": blocks,
        "CPUMapSet": stats.cpu_map.is_some(),
        "CPUMap": stats.cpu_map,
        "DirtyRate": dirty_rate(&stats.dirty_rate),
        "Load": load_averages(load),
    })
}

fn cpu(stats: &CpuStats) -> Value {
    let CpuStats { time, user, system } = *stats;
    SetFields::new()
        .number("Time", time)
        .number("User", user)
        .number("System", system)
        .done()
}

fn memory(stats: &MemoryStats) -> Value {
    let MemoryStats {
        unused,
        cached,
        available,
        actual_balloon,
        rss,
        swap_in,
        swap_out,
        major_faults,
        minor_faults,
        usable,
        total,
    } = *stats;
    SetFields::new()
        .number("Unused", unused)
        .number("Cached", cached)
        .number("Available", available)
        .number("ActualBalloon", actual_balloon)
        .number("RSS", rss)
        .number("SwapIn", swap_in)
        .number("SwapOut", swap_out)
        .number("MajorFault", major_faults)
        .number("MinorFault", minor_faults)
        .number("Usable", usable)
        .number("Total", total)
        .done()
}

fn migration_progress(progress: &MigrationProgress) -> Value {
    let MigrationProgress {
        total,
        processed,
        memory_bps,
        remaining,
        dirty_rate,
    } = *progress;
    SetFields::new()
        .number("DataTotal", total)
        .number("DataProcessed", processed)
        .number("MemoryBps", memory_bps)
        .number("DataRemaining", remaining)
        .number("MemDirtyRate", dirty_rate)
        .done()
}

fn vcpu(stats: &VcpuStats) -> Value {
    let VcpuStats {
        state,
        time,
        wait,
        delay,
    } = *stats;
    SetFields::new()
        .number("State", state)
        .number("Time", time)
        .number("Wait", wait)
        .number("Delay", delay)
        .done()
}

fn net(stats: &NetStats, aliases: &DeviceAliases) -> Value {
    let NetStats { name, rx, tx } = stats;
    let fields = SetFields::new()
        .text("Name", name.as_deref())
        .text("Alias", aliases.get(name.as_deref()));
    traffic(traffic(fields, "Rx", rx), "Tx", tx).done()
}

fn traffic(fields: SetFields, direction: &str, stats: &TrafficStats) -> SetFields {
    let TrafficStats {
        bytes,
        packets,
        errors,
        drops,
    } = *stats;
    fields
        .number(&format!("{direction}Bytes"), bytes)
        .number(&format!("{direction}Pkts"), packets)
        .number(&format!("{direction}Errs"), errors)
        .number(&format!("{direction}Drop"), drops)
}

fn block(stats: &BlockStats, aliases: &DeviceAliases) -> Value {
    let BlockStats {
        name,
        backing_index,
        path,
        reads,
        writes,
        flushes,
        errors,
        allocation,
        capacity,
        physical,
    } = stats;
    let fields = SetFields::new()
        .text("Name", name.as_deref())
        .plain("Alias", aliases.get(name.as_deref()).unwrap_or_default())
        .number("BackingIndex", *backing_index)
        .text("Path", path.as_deref());
    let RequestStats {
        requests: flush_count,
        bytes: _,
        nanoseconds: flush_times,
    } = *flushes;
    requests(requests(fields, "Rd", reads), "Wr", writes)
        .number("FlReqs", flush_count)
        .number("FlTimes", flush_times)
        .number("Errors", *errors)
        .number("Allocation", *allocation)
        .number("Capacity", *capacity)
        .number("Physical", *physical)
        .done()
}

fn requests(fields: SetFields, direction: &str, stats: &RequestStats) -> SetFields {
    let RequestStats {
        requests: count,
        bytes,
        nanoseconds,
    } = *stats;
    fields
        .number(&format!("{direction}Reqs"), count)
        .number(&format!("{direction}Bytes"), bytes)
        .number(&format!("{direction}Times"), nanoseconds)
}

fn dirty_rate(stats: &DirtyRateStats) -> Value {
    let DirtyRateStats {
        status,
        start,
        period,
        mib_per_second,
    } = *stats;
    SetFields::new()
        .number("CalcStatus", status)
        .number("CalcStartTime", start)
        .number("CalcPeriod", period)
        .number("MegabytesPerSecond", mib_per_second)
        .done()
}

fn load_averages(load: &Load) -> Value {
    let Load { one, five, fifteen } = *load;
    SetFields::new()
        .number("Load1m", one)
        .number("Load5m", five)
        .number("Load15m", fifteen)
        .done()
}

/// Device aliases by the device's target name (`tap0`, `vda`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeviceAliases(BTreeMap<String, String>);

impl DeviceAliases {
    /// Reads the aliases from the running domain's XML; none if it cannot be parsed.
    pub(crate) fn from_xml(active_xml: &str) -> DeviceAliases {
        let Ok(document) = Document::parse(active_xml) else {
            return DeviceAliases::default();
        };
        let devices = document.root().child("devices");
        let devices = devices.into_iter().flat_map(domain_xml::Element::children);
        let aliases = devices
            .filter(|device| device.is("interface") || device.is("disk"))
            .filter_map(|device| {
                let target = device.child("target")?.attr("dev")?.into_owned();
                let alias = device.child("alias")?.attr("name")?.into_owned();
                let alias = Alias::name_in(&alias).to_owned();
                Some((target, alias))
            });
        DeviceAliases(aliases.collect())
    }

    fn get(&self, target: Option<&str>) -> Option<&str> {
        self.0.get(target?).map(String::as_str)
    }
}

/// The fields of a JSON object, in the order in which they are added.
struct SetFields(Map<String, Value>);

impl SetFields {
    fn new() -> Self {
        SetFields(Map::new())
    }

    /// Adds a number; zero if there is no value.
    fn number(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        self.put(name, value, 0.into())
    }

    /// Adds a text; empty if there is no value.
    fn text(self, name: &str, value: Option<&str>) -> Self {
        self.put(name, value, "".into())
    }

    /// Adds a value; `zero` if there is none.
    fn put(mut self, name: &str, value: Option<impl Into<Value>>, zero: Value) -> Self {
        self.0.insert(format!("{name}Set"), value.is_some().into());
        self.0
            .insert(name.to_owned(), value.map_or(zero, Into::into));
        self
    }

    /// Adds a value without a `Set` boolean.
    fn plain(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// The JSON object.
    fn done(self) -> Value {
        Value::Object(self.0)
    }
}

#[cfg(test)]
mod tests;
