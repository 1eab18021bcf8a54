//! The maxima of processors and memory up to which they can be hotplugged: four times what the VMI has, where it allows
//! hotplug (`setupHotplug`, `ValidateLiveUpdateMemory`).

use kubevirt_api::vmi::Quantity;
use serde_json::Value;

use super::{Object, child, domain, is_set};

/// `maxHotplugRatio` of a cluster's live update configuration.
const RATIO: u64 = 4;
const MAX_VCPUS: u64 = 512;
const MEMORY_BLOCK: i64 = 2 << 20;
/// The block of a guest with pages of 1 GiB.
const LARGE_MEMORY_BLOCK: i64 = 1 << 30;
const MIN_MEMORY: i64 = 1 << 30;

pub(super) fn set(spec: &mut Object) {
    set_max_sockets(spec);
    set_max_guest(spec);
}

fn set_max_sockets(spec: &mut Object) {
    let Some(cpu) = domain(spec).and_then(|domain| child(domain, "cpu")) else {
        return;
    };
    if is_set(cpu.get("maxSockets")) {
        return;
    }
    let count = |field: &str| cpu.get(field).and_then(Value::as_u64).unwrap_or(0);
    let (sockets, cores, threads) = (count("sockets"), count("cores"), count("threads"));
    let per_socket = cores.saturating_mul(threads);
    let mut maximum = sockets.saturating_mul(RATIO);
    if maximum.saturating_mul(per_socket) > MAX_VCPUS {
        maximum = (MAX_VCPUS / per_socket).max(sockets);
    }
    if maximum > 0 {
        cpu.insert("maxSockets".to_owned(), maximum.into());
    }
}

fn set_max_guest(spec: &mut Object) {
    if let Some(maximum) = max_guest(spec)
        && let Some(memory) = domain(spec).and_then(|domain| child(domain, "memory"))
    {
        memory.insert("maxGuest".to_owned(), maximum.to_string().into());
    }
}

/// The maximum of memory; `None` if the VMI has one, or cannot have memory hotplugged.
fn max_guest(spec: &Object) -> Option<Quantity> {
    let domain = spec.get("domain")?;
    let memory = domain.get("memory")?;
    let is_in =
        |parent: &Value, path: &str| parent.pointer(path).is_some_and(|value| !value.is_null());
    let guest: Quantity = serde_json::from_value(memory.get("guest")?.clone()).ok()?;
    let guest = guest.value();
    let block = match memory.pointer("/hugepages/pageSize") {
        Some(size) if size == "1Gi" => LARGE_MEMORY_BLOCK,
        _ => MEMORY_BLOCK,
    };
    let cannot_grow = is_in(memory, "/maxGuest")
        || is_in(domain, "/cpu/realtime")
        || is_in(domain, "/cpu/numa/guestMappingPassthrough")
        || is_in(domain, "/launchSecurity")
        || spec.get("architecture")? != "amd64"
        || guest < MIN_MEMORY
        || guest % block != 0;
    if cannot_grow {
        return None;
    }
    let ratio = i64::try_from(RATIO).ok()?;
    guest.checked_mul(ratio).map(Quantity::from_units)
}
