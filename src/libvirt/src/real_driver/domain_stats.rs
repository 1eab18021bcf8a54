//! Reading a domain's statistics: bulk statistics, memory statistics, processor pinning.

use std::ffi::{c_int, c_uint};
use std::slice;

use virt_sys as sys;

use super::c_strings_and_errors::{check, copy_string};
use super::domain_handle::RealDomain;
use super::typed_params;
use crate::error::{Error, Result, code};
use crate::stats::{BlockStats, DirtyRateStats, DomainStats, MemoryStats};
use crate::typed_params::ParamValue;

// What KubeVirt asks for (GetDomainStats), so that the same fields are present.
const WANTED: c_uint = sys::VIR_DOMAIN_STATS_BALLOON
    | sys::VIR_DOMAIN_STATS_CPU_TOTAL
    | sys::VIR_DOMAIN_STATS_VCPU
    | sys::VIR_DOMAIN_STATS_INTERFACE
    | sys::VIR_DOMAIN_STATS_BLOCK
    | sys::VIR_DOMAIN_STATS_DIRTYRATE;
// Only domains with a QEMU process, and rather less than everything than waiting for a job.
const FLAGS: c_uint = sys::VIR_CONNECT_GET_ALL_DOMAINS_STATS_RUNNING
    | sys::VIR_CONNECT_GET_ALL_DOMAINS_STATS_PAUSED
    | sys::VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT;
const MEMORY_TAGS: usize = sys::VIR_DOMAIN_MEMORY_STAT_NR as usize;

/// All of a domain's statistics, or `None` when it has no QEMU process.
pub(super) fn read(domain: &RealDomain) -> Result<Option<DomainStats>> {
    let Some(params) = bulk(domain, WANTED)? else {
        return Ok(None);
    };
    let mut stats = DomainStats::from_typed_params(domain.name(), domain.uuid(), &params);
    optional(memory(domain, &mut stats.memory))?;
    stats.cpu_map = optional(cpu_map(domain, current_vcpus(&params)))?;
    Ok(Some(stats))
}

/// How fast the guest writes to its memory, or `None` when it has no QEMU process.
pub(super) fn read_dirty_rate(domain: &RealDomain) -> Result<Option<DirtyRateStats>> {
    let params = bulk(domain, sys::VIR_DOMAIN_STATS_DIRTYRATE)?;
    let stats = |params: Vec<_>| {
        DomainStats::from_typed_params(domain.name(), domain.uuid(), &params).dirty_rate
    };
    Ok(params.map(stats))
}

/// The statistics of the disks; none when the domain has no QEMU process.
pub(super) fn read_blocks(domain: &RealDomain) -> Result<Vec<BlockStats>> {
    let params = bulk(domain, sys::VIR_DOMAIN_STATS_BLOCK)?.unwrap_or_default();
    let stats = DomainStats::from_typed_params(domain.name(), domain.uuid(), &params);
    Ok(stats.blocks)
}

/// What a driver does not offer is absent, not a failure.
fn optional<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error {
            code: code::NO_SUPPORT,
            ..
        }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A list of records that libvirt allocated.
struct Records(*mut sys::virDomainStatsRecordPtr);

impl Drop for Records {
    fn drop(&mut self) {
        // SAFETY: the list is libvirt's own (or null, which it accepts) and not used again.
        unsafe { sys::virDomainStatsRecordListFree(self.0) };
    }
}

fn bulk(domain: &RealDomain, wanted: c_uint) -> Result<Option<Vec<(String, ParamValue)>>> {
    let mut list = std::ptr::null_mut();
    let connection = domain.connection().as_ptr();
    // SAFETY: the connection is open, and the list has a place to go.
    let count = check(unsafe {
        sys::virConnectGetAllDomainStats(connection, wanted, &raw mut list, FLAGS)
    })?;
    let records = Records(list);
    let count = usize::try_from(count).unwrap_or(0);
    if records.0.is_null() || count == 0 {
        return Ok(None);
    }
    // SAFETY: libvirt returned `count` records, each valid until the list is freed.
    let records_of_all = unsafe { slice::from_raw_parts(records.0, count) };
    Ok(records_of_all.iter().find_map(|&record| {
        // SAFETY: as above; the record's domain and parameters live as long as it does.
        unsafe {
            let record = &*record;
            let name = copy_string(sys::virDomainGetName(record.dom));
            (name == domain.name()).then(|| typed_params::copy(record.params, record.nparams))
        }
    }))
}

fn memory(domain: &RealDomain, into: &mut MemoryStats) -> Result<()> {
    let mut list = [sys::virDomainMemoryStatStruct { tag: 0, val: 0 }; MEMORY_TAGS];
    // SAFETY: the domain is valid, and the list has room for as many as it says.
    let count = check(unsafe {
        sys::virDomainMemoryStats(
            domain.as_ptr(),
            list.as_mut_ptr(),
            sys::VIR_DOMAIN_MEMORY_STAT_NR,
            0,
        )
    })?;
    for stat in list.iter().take(usize::try_from(count).unwrap_or(0)) {
        set_memory(into, stat.tag.cast_unsigned(), stat.val);
    }
    Ok(())
}

fn set_memory(into: &mut MemoryStats, tag: c_uint, value: u64) {
    let field = match tag {
        sys::VIR_DOMAIN_MEMORY_STAT_SWAP_IN => &mut into.swap_in,
        sys::VIR_DOMAIN_MEMORY_STAT_SWAP_OUT => &mut into.swap_out,
        sys::VIR_DOMAIN_MEMORY_STAT_MAJOR_FAULT => &mut into.major_faults,
        sys::VIR_DOMAIN_MEMORY_STAT_MINOR_FAULT => &mut into.minor_faults,
        sys::VIR_DOMAIN_MEMORY_STAT_UNUSED => &mut into.unused,
        sys::VIR_DOMAIN_MEMORY_STAT_AVAILABLE => &mut into.available,
        sys::VIR_DOMAIN_MEMORY_STAT_ACTUAL_BALLOON => &mut into.actual_balloon,
        sys::VIR_DOMAIN_MEMORY_STAT_RSS => &mut into.rss,
        sys::VIR_DOMAIN_MEMORY_STAT_USABLE => &mut into.usable,
        sys::VIR_DOMAIN_MEMORY_STAT_DISK_CACHES => &mut into.cached,
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

/// Per virtual CPU, which host CPUs it may run on.
fn cpu_map(domain: &RealDomain, vcpus: usize) -> Result<Vec<Vec<bool>>> {
    let cpus = host_cpus(domain)?;
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

/// How many CPUs the host can have (libvirt's VIR_NODEINFO_MAXCPUS).
fn host_cpus(domain: &RealDomain) -> Result<usize> {
    let mut info = std::mem::MaybeUninit::<sys::virNodeInfo>::zeroed();
    // SAFETY: the connection is open, and the result has a place to go.
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
