//! Reading a domain's statistics: bulk statistics, memory statistics, CPU pinning.

use std::ffi::{c_int, c_uint};
use std::slice;

use virt_sys as sys;

use super::c_strings_and_errors::{check, copy_string};
use super::handles::RealDomain;
use super::typed_param_list;
use crate::error::{Error, Result, code};
use crate::stats::{BlockStats, DirtyRateStats, DomainStats, MemoryStats};
use crate::typed_params::ParamValue;

/// The groups that KubeVirt reads (GetDomainStats), so that the same fields are present.
const STATS_GROUPS: c_uint = sys::VIR_DOMAIN_STATS_BALLOON
    | sys::VIR_DOMAIN_STATS_CPU_TOTAL
    | sys::VIR_DOMAIN_STATS_VCPU
    | sys::VIR_DOMAIN_STATS_INTERFACE
    | sys::VIR_DOMAIN_STATS_BLOCK
    | sys::VIR_DOMAIN_STATS_DIRTYRATE;
/// Only domains with a QEMU process. With NOWAIT libvirt omits values instead of waiting for a job.
const FLAGS: c_uint = sys::VIR_CONNECT_GET_ALL_DOMAINS_STATS_RUNNING
    | sys::VIR_CONNECT_GET_ALL_DOMAINS_STATS_PAUSED
    | sys::VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT;
const MEMORY_STAT_COUNT: usize = sys::VIR_DOMAIN_MEMORY_STAT_NR as usize;

/// All statistics of a domain; `None` if it has no QEMU process.
pub(super) fn read(domain: &RealDomain) -> Result<Option<DomainStats>> {
    let Some(params) = read_bulk(domain, STATS_GROUPS)? else {
        return Ok(None);
    };
    let mut stats = DomainStats::from_typed_params(domain.name(), domain.uuid(), &params);
    none_if_unsupported(read_memory(domain, &mut stats.memory))?;
    stats.cpu_map = none_if_unsupported(read_cpu_map(domain, current_vcpus(&params)))?;
    Ok(Some(stats))
}

/// The dirty rate of a domain; `None` if it has no QEMU process.
pub(super) fn read_dirty_rate(domain: &RealDomain) -> Result<Option<DirtyRateStats>> {
    let params = read_bulk(domain, sys::VIR_DOMAIN_STATS_DIRTYRATE)?;
    let stats = |params: Vec<_>| {
        DomainStats::from_typed_params(domain.name(), domain.uuid(), &params).dirty_rate
    };
    Ok(params.map(stats))
}

/// The statistics of a domain's disks; empty if the domain has no QEMU process.
pub(super) fn read_blocks(domain: &RealDomain) -> Result<Vec<BlockStats>> {
    let params = read_bulk(domain, sys::VIR_DOMAIN_STATS_BLOCK)?.unwrap_or_default();
    let stats = DomainStats::from_typed_params(domain.name(), domain.uuid(), &params);
    Ok(stats.blocks)
}

/// `None` instead of the error of a driver that does not implement the call.
fn none_if_unsupported<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error {
            code: code::NO_SUPPORT,
            ..
        }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A list of statistics records that libvirt allocated.
struct RecordList(*mut sys::virDomainStatsRecordPtr);

impl Drop for RecordList {
    fn drop(&mut self) {
        // SAFETY: the list is libvirt's own (or null, which it accepts) and not used again.
        unsafe { sys::virDomainStatsRecordListFree(self.0) };
    }
}

fn read_bulk(domain: &RealDomain, groups: c_uint) -> Result<Option<Vec<(String, ParamValue)>>> {
    let mut list = std::ptr::null_mut();
    let connection = domain.connection().as_ptr();
    // SAFETY: the connection is open, and the pointer to the list is valid.
    let count = check(unsafe {
        sys::virConnectGetAllDomainStats(connection, groups, &raw mut list, FLAGS)
    })?;
    let list = RecordList(list);
    let count = usize::try_from(count).unwrap_or(0);
    if list.0.is_null() || count == 0 {
        return Ok(None);
    }
    // SAFETY: libvirt returned `count` records, each valid until the list is freed.
    let records = unsafe { slice::from_raw_parts(list.0, count) };
    Ok(records.iter().find_map(|&record| {
        // SAFETY: as above; the record's domain and parameters live as long as it does.
        unsafe {
            let record = &*record;
            let name = copy_string(sys::virDomainGetName(record.dom));
            (name == domain.name()).then(|| typed_param_list::copy(record.params, record.nparams))
        }
    }))
}

fn read_memory(domain: &RealDomain, stats: &mut MemoryStats) -> Result<()> {
    let mut list = [sys::virDomainMemoryStatStruct { tag: 0, val: 0 }; MEMORY_STAT_COUNT];
    // SAFETY: the domain is valid, and the list has as many elements as the length says.
    let count = check(unsafe {
        sys::virDomainMemoryStats(
            domain.as_ptr(),
            list.as_mut_ptr(),
            sys::VIR_DOMAIN_MEMORY_STAT_NR,
            0,
        )
    })?;
    for stat in list.iter().take(usize::try_from(count).unwrap_or(0)) {
        set_memory_stat(stats, stat.tag.cast_unsigned(), stat.val);
    }
    Ok(())
}

fn set_memory_stat(stats: &mut MemoryStats, tag: c_uint, value: u64) {
    let field = match tag {
        sys::VIR_DOMAIN_MEMORY_STAT_SWAP_IN => &mut stats.swap_in,
        sys::VIR_DOMAIN_MEMORY_STAT_SWAP_OUT => &mut stats.swap_out,
        sys::VIR_DOMAIN_MEMORY_STAT_MAJOR_FAULT => &mut stats.major_faults,
        sys::VIR_DOMAIN_MEMORY_STAT_MINOR_FAULT => &mut stats.minor_faults,
        sys::VIR_DOMAIN_MEMORY_STAT_UNUSED => &mut stats.unused,
        sys::VIR_DOMAIN_MEMORY_STAT_AVAILABLE => &mut stats.available,
        sys::VIR_DOMAIN_MEMORY_STAT_ACTUAL_BALLOON => &mut stats.actual_balloon,
        sys::VIR_DOMAIN_MEMORY_STAT_RSS => &mut stats.rss,
        sys::VIR_DOMAIN_MEMORY_STAT_USABLE => &mut stats.usable,
        sys::VIR_DOMAIN_MEMORY_STAT_DISK_CACHES => &mut stats.cached,
        _ => return,
    };
    *field = Some(value);
}

fn current_vcpus(params: &[(String, ParamValue)]) -> usize {
    params
        .iter()
        .find(|(name, _)| name == "vcpu.current")
        .and_then(|(_, value)| value.as_u64())
        .and_then(|count| usize::try_from(count).ok())
        .unwrap_or(0)
}

/// For each virtual CPU, whether it may run on each host CPU.
fn read_cpu_map(domain: &RealDomain, vcpus: usize) -> Result<Vec<Vec<bool>>> {
    let cpus = read_host_cpu_count(domain)?;
    let bytes = cpus.div_ceil(8);
    if vcpus == 0 || bytes == 0 {
        return Ok(Vec::new());
    }
    let mut maps = vec![0_u8; vcpus * bytes];
    // SAFETY: the domain is valid, and the buffer holds `vcpus` maps of `bytes` bytes each.
    let filled = check(unsafe {
        sys::virDomainGetVcpuPinInfo(
            domain.as_ptr(),
            c_int::try_from(vcpus).unwrap_or(0),
            maps.as_mut_ptr(),
            c_int::try_from(bytes).unwrap_or(0),
            sys::VIR_DOMAIN_AFFECT_CURRENT,
        )
    })?;
    let filled = usize::try_from(filled).unwrap_or(0);
    Ok(maps
        .chunks(bytes)
        .take(filled)
        .map(|map| bits(map, cpus))
        .collect())
}

fn bits(map: &[u8], count: usize) -> Vec<bool> {
    (0..count)
        .map(|cpu| {
            map.get(cpu / 8)
                .is_some_and(|byte| byte >> (cpu % 8) & 1 == 1)
        })
        .collect()
}

/// The maximum number of CPUs that the host can have (libvirt's VIR_NODEINFO_MAXCPUS).
fn read_host_cpu_count(domain: &RealDomain) -> Result<usize> {
    let mut info = std::mem::MaybeUninit::<sys::virNodeInfo>::zeroed();
    // SAFETY: the connection is open, and the pointer to the result is valid.
    check(unsafe { sys::virNodeGetInfo(domain.connection().as_ptr(), info.as_mut_ptr()) })?;
    // SAFETY: the call succeeded; besides, all zeroes is a valid value of this plain struct.
    let info = unsafe { info.assume_init() };
    let count = u64::from(info.nodes)
        * u64::from(info.sockets)
        * u64::from(info.cores)
        * u64::from(info.threads);
    Ok(usize::try_from(count).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_map_is_little_endian_bits() {
        assert_eq!(bits(&[0b101], 4), [true, false, true, false]);
        assert_eq!(bits(&[0, 1], 9), {
            let mut expected = vec![false; 9];
            expected[8] = true;
            expected
        });
    }
}
