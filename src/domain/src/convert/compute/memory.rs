//! The guest's memory and its backing.

use kubevirt_api::vmi::{Quantity, Vmi};

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{
    DomainSpec, HugePages, MaxMemory, Memory, MemoryBacking, MemoryBackingAccess,
    MemoryBackingSource,
};

const MEMFD_ANNOTATION: &str = "kubevirt.io/memfd";

/// The size of the guest's memory: from the VMI, else the pod's request, else the pod's limit.
pub(crate) fn guest_memory(vmi: &Vmi) -> Quantity {
    let domain = &vmi.spec.domain;
    let resources = &domain.resources;
    domain
        .memory
        .as_ref()
        .and_then(|memory| memory.guest)
        .or_else(|| resources.requests.get("memory").copied())
        .or_else(|| resources.limits.get("memory").copied())
        .unwrap_or_default()
}

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let guest = guest_memory(context.vmi);
    let memory = context.vmi.spec.domain.memory.as_ref();
    let max = memory.and_then(|memory| memory.max_guest);
    if max.is_some() && memory.is_none_or(|memory| memory.guest.is_none()) {
        return Err(ConvertError::invalid(
            "spec.domain.memory.maxGuest is set and spec.domain.memory.guest is not; \
             memory can be plugged only where both are",
        ));
    }
    if let Some(max) = max.filter(|max| *max != guest) {
        spec.max_memory = Some(MaxMemory {
            value: bytes(max)?,
            unit: "b".into(),
            slots: 0,
        });
    }
    spec.memory = Memory {
        value: bytes(guest)?,
        unit: "b".into(),
    };
    spec.memory_backing = backing(context);
    Ok(())
}

pub(crate) fn bytes(quantity: Quantity) -> Result<u64, ConvertError> {
    quantity.memory_bytes().map_err(|error| {
        let amount = error.quantity();
        ConvertError::invalid(format!(
            "Memory size '{amount}' must be greater than or equal to 0"
        ))
    })
}

fn backing(context: &Context<'_>) -> Option<MemoryBacking> {
    let (huge, shared) = (context.has_hugepages(), context.shares_memory());
    (huge || shared).then(|| MemoryBacking {
        huge_pages: huge.then(HugePages::default),
        access: shared.then(|| MemoryBackingAccess {
            mode: "shared".into(),
        }),
        source: needs_memfd(context).then(|| MemoryBackingSource {
            kind: "memfd".into(),
        }),
        ..MemoryBacking::default()
    })
}

/// Whether the memory is a memfd: if another process maps the memory, and for huge pages unless the VMI disables that.
/// A memfd needs a NUMA cell; versions that ask for one without NUMA are corrected by `qemu_limits`.
pub(crate) fn needs_memfd(context: &Context<'_>) -> bool {
    if !context.architecture.has_numa() && context.behaviour().has_memfd_with_numa_only {
        return false;
    }
    context.shares_memory()
        || (context.has_hugepages() && context.vmi.annotation(MEMFD_ANNOTATION) != Some("false"))
}
