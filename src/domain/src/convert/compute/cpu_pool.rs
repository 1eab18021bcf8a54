//! Assigns host threads to virtual cores: whole cores first, then fragments of cores within a NUMA node, then fragments
//! across nodes.

use std::collections::{HashSet, VecDeque};

use kubevirt_api::virtual_machine_options::{Cell, Topology};

/// Whether threads of one virtual core may run on several NUMA nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeCrossing {
    Allowed,
    Refused,
}

/// Why the cores do not fit, in KubeVirt's words.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum CpuPoolError {
    #[error("not enough exclusive threads provided, could not fit {0} core(s)")]
    TooFew(u64),
    #[error("could not fit {0} core(s) without crossing numa cell boundaries for individual cores")]
    Crosses(u64),
}

/// The pod's processors by NUMA node.
pub(crate) struct CpuPool {
    nodes: Vec<Node>,
    cores: u64,
    threads_per_core: usize,
    crossing: NodeCrossing,
    available: usize,
}

/// The pod's processors of one NUMA node.
struct Node {
    /// Cores with enough threads for a virtual core.
    whole: VecDeque<VecDeque<u32>>,
    fragments: VecDeque<u32>,
    threads_per_core: usize,
}

impl CpuPool {
    pub(crate) fn new(
        cores: u64,
        threads_per_core: u32,
        crossing: NodeCrossing,
        topology: Option<&Topology>,
        cpuset: &[u32],
    ) -> Self {
        let threads_per_core = usize::try_from(threads_per_core.max(1)).unwrap_or(usize::MAX);
        let ours: HashSet<u32> = cpuset.iter().copied().collect();
        let mut seen = HashSet::new();
        let cells = topology.map_or(&[][..], |topology| &topology.numa_cells);
        let nodes = cells
            .iter()
            .map(|cell| Node::new(cores_of(cell, &ours, &mut seen), threads_per_core));
        Self {
            nodes: nodes.collect(),
            cores,
            threads_per_core,
            crossing,
            available: cpuset.len(),
        }
    }

    /// Threads for all virtual cores, in the order of virtual processors.
    pub(crate) fn take_cores(&mut self) -> Result<Vec<u32>, CpuPoolError> {
        let mut threads = Vec::new();
        let mut missing = self.cores;
        for source in [Node::take_whole, Node::take_fragments] {
            for node in &mut self.nodes {
                while missing > 0
                    && let Some(core) = source(node)
                {
                    threads.extend(core);
                    missing -= 1;
                }
            }
        }
        if missing > 0 && self.crossing == NodeCrossing::Allowed {
            missing = self.take_across(missing, &mut threads);
        }
        match missing {
            0 => Ok(threads),
            missing if self.crossing == NodeCrossing::Allowed || self.is_short() => {
                Err(CpuPoolError::TooFew(missing))
            }
            missing => Err(CpuPoolError::Crosses(missing)),
        }
    }

    /// A single thread, for IO and emulator threads.
    pub(crate) fn take_thread(&mut self) -> Option<u32> {
        self.nodes.iter_mut().find_map(Node::take_thread)
    }

    fn is_short(&self) -> bool {
        let wanted = self.cores.saturating_mul(self.threads_per_core as u64);
        (self.available as u64) < wanted
    }

    /// Takes the remaining fragments, node after node. Returns the number of cores that are still missing.
    fn take_across(&mut self, missing: u64, threads: &mut Vec<u32>) -> u64 {
        let per_core = self.threads_per_core as u64;
        let mut wanted = missing.saturating_mul(per_core);
        for fragments in self.nodes.iter_mut().map(|node| &mut node.fragments) {
            let count = usize::try_from(wanted)
                .map_or(fragments.len(), |wanted| wanted.min(fragments.len()));
            threads.extend(fragments.drain(..count));
            wanted -= count as u64;
        }
        // As in KubeVirt, a core that lacks only some of its threads counts as present.
        wanted / per_core
    }
}

/// The pod's threads of each of the node's cores.
fn cores_of(cell: &Cell, ours: &HashSet<u32>, seen: &mut HashSet<u32>) -> Vec<VecDeque<u32>> {
    let mut cores = Vec::new();
    for cpu in &cell.cpus {
        if seen.contains(&cpu.id) {
            continue;
        }
        let alone = [cpu.id];
        let siblings = match cpu.siblings.as_slice() {
            [] => &alone,
            siblings => siblings,
        };
        seen.extend(siblings);
        let threads = siblings.iter().filter(|thread| ours.contains(thread));
        cores.push(threads.copied().collect());
    }
    cores
}

impl Node {
    fn new(cores: Vec<VecDeque<u32>>, threads_per_core: usize) -> Self {
        let (whole, broken): (VecDeque<_>, VecDeque<_>) = cores
            .into_iter()
            .partition(|core| core.len() >= threads_per_core);
        Self {
            whole,
            fragments: broken.into_iter().flatten().collect(),
            threads_per_core,
        }
    }

    fn take_whole(&mut self) -> Option<Vec<u32>> {
        self.take_of_whole(self.threads_per_core)
    }

    /// Takes threads of a whole core; the rest becomes a fragment if it is too small.
    fn take_of_whole(&mut self, count: usize) -> Option<Vec<u32>> {
        let core = self.whole.front_mut()?;
        let taken = core.drain(..count).collect();
        if core.len() < self.threads_per_core {
            let rest = self.whole.pop_front().unwrap_or_default();
            self.fragments.extend(rest);
        }
        Some(taken)
    }

    fn take_fragments(&mut self) -> Option<Vec<u32>> {
        let enough = self.fragments.len() >= self.threads_per_core;
        enough.then(|| self.fragments.drain(..self.threads_per_core).collect())
    }

    fn take_thread(&mut self) -> Option<u32> {
        match self.fragments.pop_front() {
            Some(thread) => Some(thread),
            None => self.take_of_whole(1)?.pop(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kubevirt_api::virtual_machine_options::Cpu;

    /// Two nodes of two cores of two threads: 0+4, 1+5; 2+6, 3+7.
    fn topology() -> Topology {
        let cell = |id: u32, cpus: [u32; 4]| Cell {
            id,
            cpus: cpus
                .map(|id| Cpu {
                    id,
                    siblings: vec![id % 4, id % 4 + 4],
                })
                .into(),
            ..Cell::default()
        };
        Topology {
            numa_cells: vec![cell(0, [0, 1, 4, 5]), cell(1, [2, 3, 6, 7])],
        }
    }

    fn pool(cores: u64, threads: u32, crossing: NodeCrossing, cpuset: &[u32]) -> CpuPool {
        CpuPool::new(cores, threads, crossing, Some(&topology()), cpuset)
    }

    #[test]
    fn whole_cores_come_first() {
        let mut pool = pool(2, 2, NodeCrossing::Refused, &[0, 1, 2, 3, 4, 6]);
        assert_eq!(pool.take_cores().unwrap(), [0, 4, 2, 6]);
        assert_eq!(pool.take_thread(), Some(1));
        assert_eq!(pool.take_thread(), Some(3));
        assert_eq!(pool.take_thread(), None);
    }

    #[test]
    fn cores_cross_numa_nodes_only_if_allowed() {
        let cpuset = [0, 2];
        let mut relaxed = pool(1, 2, NodeCrossing::Allowed, &cpuset);
        assert_eq!(relaxed.take_cores().unwrap(), [0, 2]);
        let strict = pool(1, 2, NodeCrossing::Refused, &cpuset).take_cores();
        assert_eq!(strict.unwrap_err(), CpuPoolError::Crosses(1));
        let short = pool(2, 2, NodeCrossing::Refused, &cpuset).take_cores();
        assert_eq!(short.unwrap_err(), CpuPoolError::TooFew(2));
        let short = pool(3, 1, NodeCrossing::Allowed, &cpuset).take_cores();
        assert_eq!(short.unwrap_err(), CpuPoolError::TooFew(1));
    }

    #[test]
    fn single_threads_split_a_whole_core() {
        let mut pool = pool(1, 2, NodeCrossing::Allowed, &[0, 1, 4, 5]);
        assert_eq!(pool.take_cores().unwrap(), [0, 4]);
        assert_eq!(pool.take_thread(), Some(1));
        assert_eq!(pool.take_thread(), Some(5));
        assert_eq!(pool.take_thread(), None);
    }

    #[test]
    fn no_cores_fit_without_a_topology() {
        let mut pool = CpuPool::new(1, 1, NodeCrossing::Allowed, None, &[0]);
        assert_eq!(pool.take_cores().unwrap_err(), CpuPoolError::TooFew(1));
        let mut none = CpuPool::new(u64::MAX, u32::MAX, NodeCrossing::Refused, None, &[]);
        assert!(none.take_cores().is_err());
    }
}
