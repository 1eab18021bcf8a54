//! `CpuPool`: assigns host threads to virtual cores. Whole cores are used first, then single threads within a NUMA
//! node, then single threads across nodes.

#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};

use kubevirt_api::virtual_machine_options::{Cell, Topology};

/// Whether threads of one virtual core may run on several NUMA nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeCrossing {
    Allowed,
    Forbidden,
}

/// Why the virtual cores do not fit. The messages are KubeVirt's.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum CpuPoolError {
    #[error("not enough exclusive threads provided, could not fit {0} core(s)")]
    TooFewThreads(u64),
    #[error("could not fit {0} core(s) without crossing numa cell boundaries for individual cores")]
    CrossesNodes(u64),
}

/// The pod's host threads that are not assigned yet, by NUMA node.
pub(crate) struct CpuPool {
    nodes: Vec<Node>,
    /// The number of virtual cores.
    cores: u64,
    threads_per_core: usize,
    crossing: NodeCrossing,
    /// The number of the pod's threads.
    available: usize,
}

/// The pod's host threads on one NUMA node that are not assigned yet.
struct Node {
    /// Cores with enough threads for a virtual core.
    whole_cores: VecDeque<VecDeque<u32>>,
    /// Threads of other cores.
    single_threads: VecDeque<u32>,
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
        let pod_threads: HashSet<u32> = cpuset.iter().copied().collect();
        let mut seen_threads = HashSet::new();
        let cells = topology.map_or(&[][..], |topology| &topology.numa_cells);
        let nodes = cells.iter().map(|cell| {
            Node::new(
                pod_cores(cell, &pod_threads, &mut seen_threads),
                threads_per_core,
            )
        });
        Self {
            nodes: nodes.collect(),
            cores,
            threads_per_core,
            crossing,
            available: cpuset.len(),
        }
    }

    /// Takes threads for all virtual cores, in the order of vCPUs.
    pub(crate) fn take_cores(&mut self) -> Result<Vec<u32>, CpuPoolError> {
        let mut threads = Vec::new();
        let mut missing = self.cores;
        for take_core in [Node::take_whole_core, Node::take_core_of_single_threads] {
            for node in &mut self.nodes {
                while missing > 0
                    && let Some(core) = take_core(node)
                {
                    threads.extend(core);
                    missing -= 1;
                }
            }
        }
        if missing > 0 && self.crossing == NodeCrossing::Allowed {
            missing = self.take_across_nodes(missing, &mut threads);
        }
        match missing {
            0 => Ok(threads),
            missing if self.crossing == NodeCrossing::Allowed || self.has_too_few_threads() => {
                Err(CpuPoolError::TooFewThreads(missing))
            }
            missing => Err(CpuPoolError::CrossesNodes(missing)),
        }
    }

    /// Takes a single thread, for an IO thread or the emulator thread.
    pub(crate) fn take_thread(&mut self) -> Option<u32> {
        self.nodes.iter_mut().find_map(Node::take_thread)
    }

    fn has_too_few_threads(&self) -> bool {
        let needed = self.cores.saturating_mul(self.threads_per_core as u64);
        (self.available as u64) < needed
    }

    /// Takes the remaining single threads, node after node. Returns the number of cores that are still missing.
    fn take_across_nodes(&mut self, missing: u64, threads: &mut Vec<u32>) -> u64 {
        let per_core = self.threads_per_core as u64;
        let mut needed = missing.saturating_mul(per_core);
        for single_threads in self.nodes.iter_mut().map(|node| &mut node.single_threads) {
            let count = usize::try_from(needed).map_or(single_threads.len(), |needed| {
                needed.min(single_threads.len())
            });
            threads.extend(single_threads.drain(..count));
            needed -= count as u64;
        }
        // As in KubeVirt, a core that lacks only some of its threads counts as present.
        needed / per_core
    }
}

/// The threads of each core of a NUMA cell that belong to the pod.
fn pod_cores(
    cell: &Cell,
    pod_threads: &HashSet<u32>,
    seen_threads: &mut HashSet<u32>,
) -> Vec<VecDeque<u32>> {
    let mut cores = Vec::new();
    for cpu in &cell.cpus {
        if seen_threads.contains(&cpu.id) {
            continue;
        }
        let only_itself = [cpu.id];
        let siblings = match cpu.siblings.as_slice() {
            [] => &only_itself,
            siblings => siblings,
        };
        seen_threads.extend(siblings);
        let threads = siblings
            .iter()
            .filter(|thread| pod_threads.contains(thread));
        cores.push(threads.copied().collect());
    }
    cores
}

impl Node {
    fn new(cores: Vec<VecDeque<u32>>, threads_per_core: usize) -> Self {
        let (whole_cores, partial_cores): (VecDeque<_>, VecDeque<_>) = cores
            .into_iter()
            .partition(|core| core.len() >= threads_per_core);
        Self {
            whole_cores,
            single_threads: partial_cores.into_iter().flatten().collect(),
            threads_per_core,
        }
    }

    fn take_whole_core(&mut self) -> Option<Vec<u32>> {
        self.take_from_whole_core(self.threads_per_core)
    }

    /// Takes threads of a whole core. The rest become single threads if they are too few for a virtual core.
    fn take_from_whole_core(&mut self, count: usize) -> Option<Vec<u32>> {
        let core = self.whole_cores.front_mut()?;
        let taken = core.drain(..count).collect();
        if core.len() < self.threads_per_core {
            let rest = self.whole_cores.pop_front().unwrap_or_default();
            self.single_threads.extend(rest);
        }
        Some(taken)
    }

    fn take_core_of_single_threads(&mut self) -> Option<Vec<u32>> {
        let is_enough = self.single_threads.len() >= self.threads_per_core;
        is_enough.then(|| self.single_threads.drain(..self.threads_per_core).collect())
    }

    fn take_thread(&mut self) -> Option<u32> {
        match self.single_threads.pop_front() {
            Some(thread) => Some(thread),
            None => self.take_from_whole_core(1)?.pop(),
        }
    }
}
