//! NUMA passthrough (`guestMappingPassthrough`): a guest NUMA cell for each host node that the vCPUs are pinned to, the
//! binding of its memory to that node (`<numatune>`), and memory in huge pages (`<memoryBacking>`).

use std::collections::BTreeMap;

use kubevirt_api::virtual_machine_options::{Cell, Topology};
use kubevirt_api::vmi::Quantity;

use crate::convert::compute::cpu_pinning::is_numa_passed_through;
use crate::convert::compute::memory;
use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{
    DomainSpec, HugePage, MemNode, MemoryAllocation, NoSharePages, Numa, NumaCell,
    NumaCellDistances, NumaCellSibling, NumaTune, NumaTuneMemory,
};

/// A guest cell: the host's cell, and the vCPUs pinned to it.
struct GuestCell<'a> {
    host_cell: &'a Cell,
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
    let cells = guest_cells(topology, spec)?;
    let page = page_size(context)?;
    let sizes = CellSizes::new(memory::guest_memory(context.vmi), page, cells.len())?;
    spec.numa_tune = Some(numa_tune(&cells));
    spec.cpu.numa = Some(Numa {
        cells: cell_elements(&cells, &sizes, context.behaviour().numa_distances),
    });
    set_memory_backing(spec, page, cells.len(), cpu.realtime.is_some());
    Ok(())
}

/// The guest's cells in the host's order.
fn guest_cells<'a>(
    topology: &'a Topology,
    spec: &DomainSpec,
) -> Result<Vec<GuestCell<'a>>, ConvertError> {
    let mut cell_of_cpu = BTreeMap::new();
    for cell in &topology.numa_cells {
        cell_of_cpu.extend(cell.cpus.iter().map(|cpu| (cpu.id.to_string(), cell.id)));
    }
    let mut vcpus: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pin in spec.cpu_tune.iter().flat_map(|tune| &tune.vcpu_pin) {
        let cell = cell_of_cpu.get(&pin.cpuset).ok_or_else(|| {
            ConvertError::invalid(format!(
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
            Some(GuestCell {
                host_cell: cell,
                vcpus,
            })
        })
        .collect())
}

/// The size of a huge page in bytes.
fn page_size(context: &Context<'_>) -> Result<u64, ConvertError> {
    let memory = context.vmi.spec.domain.memory.as_ref();
    let Some(hugepages) = memory.and_then(|memory| memory.hugepages.as_ref()) else {
        return Err(ConvertError::invalid(
            "passing through a numa topology is restricted to VMIs with hugepages enabled",
        ));
    };
    let size = &hugepages.page_size;
    let invalid = |reason: &str| {
        ConvertError::invalid(format!(
            "failed to determine if hugepages are enabled: could not parse hugepage value {size}: {reason}"
        ))
    };
    let quantity = Quantity::parse(size).map_err(|error| invalid(&error.to_string()))?;
    match quantity.memory_bytes() {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(invalid("it must be more than nothing")),
    }
}

/// The memory of each cell in bytes, as whole pages. The first cells get one of the remaining pages each.
struct CellSizes {
    smallest: u64,
    page: u64,
    /// The number of cells with one more page.
    larger_cells: usize,
}

impl CellSizes {
    fn new(memory: Quantity, page: u64, cells: usize) -> Result<Self, ConvertError> {
        let bytes = memory::bytes(memory).map_err(|error| {
            ConvertError::invalid(format!("could not convert VMI memory to quantity: {error}"))
        })?;
        let count = u64::try_from(cells).unwrap_or(u64::MAX).max(1);
        let minimum = page.saturating_mul(count);
        if bytes < minimum {
            // The number is wrong (`minimum` is in bytes already), but it is KubeVirt's message, kept word for word.
            return Err(ConvertError::invalid(format!(
                "not enough memory requested to allocate at least one hugepage per numa node: \
                 {{{bytes} b}} < {}",
                minimum.wrapping_mul(1024 * 1024)
            )));
        }
        if bytes % page != 0 {
            return Err(ConvertError::invalid(format!(
                "requested memory can't be divided through the numa page size: \
                 {{{bytes} b}} mod {page} != 0"
            )));
        }
        let pages = bytes / page;
        Ok(Self {
            smallest: pages / count * page,
            page,
            larger_cells: usize::try_from(pages % count).unwrap_or_default(),
        })
    }

    fn bytes(&self, cell: usize) -> u64 {
        self.smallest
            + if cell < self.larger_cells {
                self.page
            } else {
                0
            }
    }
}

fn cell_elements(cells: &[GuestCell<'_>], sizes: &CellSizes, has_distances: bool) -> Vec<NumaCell> {
    let element = |(index, cell): (usize, &GuestCell<'_>)| NumaCell {
        id: index.to_string(),
        cpus: join(&cell.vcpus),
        memory: Some(sizes.bytes(index)),
        unit: "b".into(),
        distances: has_distances
            .then(|| distances(cell.host_cell, cells))
            .flatten(),
        ..NumaCell::default()
    };
    cells.iter().enumerate().map(element).collect()
}

/// The distances from a host cell to those that the guest has, by the guest's numbers; `None` if the host tells none.
fn distances(from: &Cell, cells: &[GuestCell<'_>]) -> Option<NumaCellDistances> {
    let guest_cell = |host: u32| cells.iter().position(|cell| cell.host_cell.id == host);
    let siblings = from.distances.iter().filter_map(|sibling| {
        Some(NumaCellSibling {
            id: guest_cell(sibling.id)?.to_string(),
            value: sibling.value,
        })
    });
    let siblings: Vec<_> = siblings.collect();
    (!siblings.is_empty()).then_some(NumaCellDistances { siblings })
}

fn join(numbers: &[u32]) -> String {
    let numbers: Vec<_> = numbers.iter().map(u32::to_string).collect();
    numbers.join(",")
}

/// Binds each guest cell's memory to its host node.
fn numa_tune(guests: &[GuestCell<'_>]) -> NumaTune {
    let nodes: Vec<_> = guests.iter().map(|guest| guest.host_cell.id).collect();
    let mem_node = |(cell_id, guest): (u32, &GuestCell<'_>)| MemNode {
        cell_id,
        mode: "strict".into(),
        node_set: guest.host_cell.id.to_string(),
    };
    NumaTune {
        memory: NumaTuneMemory {
            mode: "strict".into(),
            node_set: join(&nodes),
        },
        mem_nodes: (0..).zip(guests).map(mem_node).collect(),
    }
}

fn set_memory_backing(spec: &mut DomainSpec, page: u64, cells: usize, is_realtime: bool) {
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
    use super::*;

    #[test]
    fn memory_is_split_into_whole_pages() {
        let sizes = |memory, page, cells| CellSizes::new(Quantity::from_units(memory), page, cells);
        let three = sizes(11 * 4, 4, 3).unwrap();
        assert_eq!([0, 1, 2].map(|cell| three.bytes(cell)), [16, 16, 12]);
        let error_text =
            |memory, page, cells| sizes(memory, page, cells).err().unwrap().to_string();
        assert!(error_text(7, 4, 2).starts_with("not enough memory requested"));
        assert!(error_text(9, 4, 2).starts_with("requested memory can't be divided"));
        assert!(error_text(-1, 4, 2).contains("must be greater than or equal to 0"));
    }
}
