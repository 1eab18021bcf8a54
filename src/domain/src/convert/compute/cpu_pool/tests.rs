//! The order in which cores and threads are assigned.
use super::*;
use kubevirt_api::virtual_machine_options::Cpu;

/// Two nodes of two cores of two threads: 0+4 and 1+5; 2+6 and 3+7.
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
fn whole_cores_are_used_before_single_threads() {
    let mut pool = pool(2, 2, NodeCrossing::Forbidden, &[0, 1, 2, 3, 4, 6]);
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
    let strict = pool(1, 2, NodeCrossing::Forbidden, &cpuset).take_cores();
    assert_eq!(strict.unwrap_err(), CpuPoolError::CrossesNodes(1));
    let short = pool(2, 2, NodeCrossing::Forbidden, &cpuset).take_cores();
    assert_eq!(short.unwrap_err(), CpuPoolError::TooFewThreads(2));
    let short = pool(3, 1, NodeCrossing::Allowed, &cpuset).take_cores();
    assert_eq!(short.unwrap_err(), CpuPoolError::TooFewThreads(1));
}

#[test]
fn whole_core_is_split_if_no_single_thread_is_left() {
    let mut pool = pool(1, 2, NodeCrossing::Allowed, &[0, 1, 4, 5]);
    assert_eq!(pool.take_cores().unwrap(), [0, 4]);
    assert_eq!(pool.take_thread(), Some(1));
    assert_eq!(pool.take_thread(), Some(5));
    assert_eq!(pool.take_thread(), None);
}

#[test]
fn no_cores_fit_without_a_topology() {
    let mut pool = CpuPool::new(1, 1, NodeCrossing::Allowed, None, &[0]);
    assert_eq!(
        pool.take_cores().unwrap_err(),
        CpuPoolError::TooFewThreads(1)
    );
    let mut none = CpuPool::new(u64::MAX, u32::MAX, NodeCrossing::Forbidden, None, &[]);
    assert!(none.take_cores().is_err());
}
