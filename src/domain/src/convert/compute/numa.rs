//! The guest's NUMA cells, one for each host node that its processors are pinned to, with memory in huge pages of that
//! node.

use std::collections::BTreeMap;

use kubevirt_api::virtual_machine_options::{Cell, Topology};
use kubevirt_api::vmi::Quantity;

use crate::convert::compute::cpu_pinning::is_numa_passed_through;
use crate::convert::compute::memory;
use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{
    DomainSpec, HugePage, MemNode, MemoryAllocation, NoSharePages, Numa, NumaCell, NumaTune,
    NumaTuneMemory,
};

/// A guest cell: the host's cell, and the virtual processors pinned to it.
struct GuestCell<'a> {
    cell: &'a Cell,
    vcpus: Vec<u32>,
}

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let domain = &context.vmi.spec.domain;
    let Some(cpu) = domain
        .cpu
        .as_ref()
        .filter(|cpu| cpu.dedicated_cpu_placement && is_numa_passed_through(cpu))
    else {
        return Ok(());
    };
    let Some(topology) = context
        .options
        .topology
        .as_ref()
        .filter(|topology| !topology.numa_cells.is_empty())
    else {
        return Ok(());
    };
    let guests = guest_cells(topology, spec)?;
    let page = page_size(context)?;
    let sizes = Sizes::of(memory::guest(context.vmi), page, guests.len())?;
    spec.numa_tune = Some(tune(&guests));
    spec.cpu.numa = Some(Numa {
        cells: cells(&guests, &sizes),
    });
    back(spec, page, guests.len(), cpu.realtime.is_some());
    Ok(())
}

/// The guest's cells in the host's order.
fn guest_cells<'a>(
    topology: &'a Topology,
    spec: &DomainSpec,
) -> Result<Vec<GuestCell<'a>>, ConvertError> {
    let mut cell_of = BTreeMap::new();
    for cell in &topology.numa_cells {
        cell_of.extend(cell.cpus.iter().map(|cpu| (cpu.id.to_string(), cell.id)));
    }
    let mut vcpus: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pin in spec.cpu_tune.iter().flat_map(|tune| &tune.vcpu_pin) {
        let cell = cell_of.get(&pin.cpuset).ok_or_else(|| {
            ConvertError::refused(format!(
                "failed to generate numa pinning information: vcpu {} is mapped to a not existing \
                 host cpu set {}",
                pin.vcpu, pin.cpuset
            ))
        })?;
        vcpus.entry(*cell).or_default().push(pin.vcpu);
    }
    let cells = topology.numa_cells.iter();
    Ok(cells
        .filter_map(|cell| {
            let vcpus = vcpus.remove(&cell.id)?;
            Some(GuestCell { cell, vcpus })
        })
        .collect())
}

/// The size of a huge page in bytes.
fn page_size(context: &Context<'_>) -> Result<u64, ConvertError> {
    let memory = context.vmi.spec.domain.memory.as_ref();
    let Some(hugepages) = memory.and_then(|memory| memory.hugepages.as_ref()) else {
        return Err(ConvertError::refused(
            "passing through a numa topology is restricted to VMIs with hugepages enabled",
        ));
    };
    let size = &hugepages.page_size;
    let refused = |reason: &str| {
        ConvertError::refused(format!(
            "failed to determine if hugepages are enabled: could not parse hugepage value {size}: {reason}"
        ))
    };
    let quantity = Quantity::parse(size).map_err(|error| refused(&error.to_string()))?;
    match quantity.memory_bytes() {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(refused("it must be more than nothing")),
    }
}

/// The memory of each cell, in whole pages; the first cells get the remainder.
struct Sizes {
    each: u64,
    page: u64,
    larger: usize,
}

impl Sizes {
    fn of(memory: Quantity, page: u64, cells: usize) -> Result<Self, ConvertError> {
        let bytes = memory::bytes(memory).map_err(|error| {
            ConvertError::refused(format!("could not convert VMI memory to quantity: {error}"))
        })?;
        let count = u64::try_from(cells).unwrap_or(u64::MAX).max(1);
        let least = page.saturating_mul(count);
        if bytes < least {
            // The unit is the one in KubeVirt's message.
            return Err(ConvertError::refused(format!(
                "not enough memory requested to allocate at least one hugepage per numa node: \
                 {{{bytes} b}} < {}",
                least.wrapping_mul(1024 * 1024)
            )));
        }
        if bytes % page != 0 {
            return Err(ConvertError::refused(format!(
                "requested memory can't be divided through the numa page size: \
                 {{{bytes} b}} mod {page} != 0"
            )));
        }
        let pages = bytes / page;
        Ok(Self {
            each: pages / count * page,
            page,
            larger: usize::try_from(pages % count).unwrap_or_default(),
        })
    }

    fn of_cell(&self, place: usize) -> u64 {
        self.each + if place < self.larger { self.page } else { 0 }
    }
}

fn cells(guests: &[GuestCell<'_>], sizes: &Sizes) -> Vec<NumaCell> {
    let cell = |(place, guest): (usize, &GuestCell<'_>)| NumaCell {
        id: place.to_string(),
        cpus: joined(&guest.vcpus),
        memory: Some(sizes.of_cell(place)),
        unit: "b".into(),
        ..NumaCell::default()
    };
    guests.iter().enumerate().map(cell).collect()
}

fn joined(numbers: &[u32]) -> String {
    let numbers: Vec<_> = numbers.iter().map(u32::to_string).collect();
    numbers.join(",")
}

/// Binds each guest cell's memory to its host node.
fn tune(guests: &[GuestCell<'_>]) -> NumaTune {
    let nodes: Vec<_> = guests.iter().map(|guest| guest.cell.id).collect();
    let mem_node = |(cell_id, guest): (u32, &GuestCell<'_>)| MemNode {
        cell_id,
        mode: "strict".into(),
        node_set: guest.cell.id.to_string(),
    };
    NumaTune {
        memory: NumaTuneMemory {
            mode: "strict".into(),
            node_set: joined(&nodes),
        },
        mem_nodes: (0..).zip(guests).map(mem_node).collect(),
    }
}

fn back(spec: &mut DomainSpec, page: u64, cells: usize, is_realtime: bool) {
    let backing = spec.memory_backing.get_or_insert_default();
    backing.allocation = Some(MemoryAllocation {
        mode: "immediate".into(),
    });
    let pages = (0..cells).map(|cell| HugePage {
        size: page.to_string(),
        unit: "b".into(),
        node_set: cell.to_string(),
    });
    let huge_pages = backing.huge_pages.get_or_insert_default();
    huge_pages.huge_page.extend(pages);
    if is_realtime {
        backing.no_share_pages = Some(NoSharePages::default());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn memory_is_split_in_whole_pages() {
        let sizes = |memory, page, cells| Sizes::of(Quantity::from_units(memory), page, cells);
        let three = sizes(11 * 4, 4, 3).unwrap();
        assert_eq!([0, 1, 2].map(|cell| three.of_cell(cell)), [16, 16, 12]);
        let refusal = |memory, page, cells| sizes(memory, page, cells).err().unwrap().to_string();
        assert!(refusal(7, 4, 2).starts_with("not enough memory requested"));
        assert!(refusal(9, 4, 2).starts_with("requested memory can't be divided"));
        assert!(refusal(-1, 4, 2).contains("must be greater than or equal to 0"));
    }
}
