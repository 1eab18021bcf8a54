//! IO threads: their number, and their assignment to disks.

use kubevirt_api::vmi::{Disk, Vmi};

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{self, DiskIoThread, DiskIoThreads, DomainSpec};

const THREADS_PER_CPU: i64 = 2;
const POOL_POLICY: &str = "supplementalPool";
/// The maximum number of threads in a pool.
const MAX_POOL_SIZE: u32 = 1024;

/// The numbers of IO threads of a VM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct IoThreadCounts {
    pub(crate) total: u64,
    /// Threads shared by the disks without a dedicated one.
    pub(crate) automatic: u64,
    /// The size of a pool that all disks share.
    pub(crate) pool: Option<u32>,
}

pub(crate) fn has_dedicated_io_thread(disk: &Disk) -> bool {
    disk.dedicated_io_thread == Some(true)
}

impl IoThreadCounts {
    pub(crate) fn are_requested(vmi: &Vmi) -> bool {
        let domain = &vmi.spec.domain;
        domain.io_threads_policy.is_some()
            || domain.devices.disks.iter().any(has_dedicated_io_thread)
    }

    pub(crate) fn from_vmi(vmi: &Vmi) -> Self {
        let disks = &vmi.spec.domain.devices.disks;
        let policy = vmi.spec.domain.io_threads_policy.as_deref();
        if !Self::are_requested(vmi) {
            return Self::default();
        }
        if policy == Some(POOL_POLICY) {
            let pool = pool_size(vmi).unwrap_or_default();
            return Self {
                total: pool.into(),
                automatic: 0,
                pool: Some(pool),
            };
        }
        let dedicated = count(disks.iter().filter(|disk| has_dedicated_io_thread(disk)));
        let others = count(disks.iter()) - dedicated;
        let limit = max_threads(vmi, policy);
        let automatic = if others + dedicated > limit {
            limit.saturating_sub(dedicated).max(1)
        } else {
            others
        };
        Self {
            total: automatic + dedicated,
            automatic,
            pool: None,
        }
    }
}

fn pool_size(vmi: &Vmi) -> Option<u32> {
    let threads = vmi.spec.domain.io_threads.as_ref()?;
    threads.supplemental_pool_thread_count
}

fn count<'a>(disks: impl Iterator<Item = &'a Disk>) -> u64 {
    u64::try_from(disks.count()).unwrap_or(u64::MAX)
}

fn max_threads(vmi: &Vmi, policy: Option<&str>) -> u64 {
    let resources = &vmi.spec.domain.resources;
    match policy {
        None | Some("shared") => 1,
        // One IO thread, which shares the CPU of the emulator thread.
        Some("auto") if has_isolated_emulator_thread(vmi) => 1,
        Some("auto") => {
            let cpus = resources
                .requests
                .get("cpu")
                .or_else(|| resources.limits.get("cpu"));
            let cpus = cpus.map_or(1, kubevirt_api::vmi::Quantity::value);
            u64::try_from(cpus.saturating_mul(THREADS_PER_CPU)).unwrap_or_default()
        }
        Some(_) => 0,
    }
}

fn has_isolated_emulator_thread(vmi: &Vmi) -> bool {
    let cpu = vmi.spec.domain.cpu.as_ref();
    cpu.is_some_and(|cpu| cpu.dedicated_cpu_placement && cpu.isolate_emulator_thread)
}

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let domain = &context.vmi.spec.domain;
    if let Some(policy) = domain.io_threads_policy.as_deref()
        && !matches!(policy, "shared" | "auto" | "supplementalPool")
    {
        return Err(ConvertError::Value {
            field: "spec.domain.ioThreadsPolicy".into(),
            value: policy.into(),
            allowed: "shared, auto or supplementalPool",
        });
    }
    let threads = IoThreadCounts::from_vmi(context.vmi);
    if threads.total > 0 {
        spec.io_threads = Some(libvirt_spec::IoThreads {
            io_threads: threads.total,
        });
    }
    Ok(())
}

/// Assigns IO threads to disks in their order.
pub(crate) struct IoThreadAssignment {
    threads: IoThreadCounts,
    next_automatic: u64,
    next_dedicated: u64,
}

impl IoThreadAssignment {
    pub(crate) fn new(vmi: &Vmi) -> Result<Self, ConvertError> {
        let threads = IoThreadCounts::from_vmi(vmi);
        if threads.pool.is_some() && pool_size(vmi).is_none_or(|pool| pool > MAX_POOL_SIZE) {
            return Err(ConvertError::Value {
                field: "spec.domain.ioThreads.supplementalPoolThreadCount".into(),
                value: pool_size(vmi).map_or_else(String::new, |pool| pool.to_string()),
                allowed: "a number up to 1024",
            });
        }
        Ok(Self {
            threads,
            next_automatic: 1,
            next_dedicated: threads.automatic + 1,
        })
    }

    pub(crate) fn assign(&mut self, source: &Disk, disk: &mut libvirt_spec::Disk) {
        let Some(driver) = disk.driver.as_mut().filter(|_| disk.target.bus == "virtio") else {
            return;
        };
        if let Some(pool) = self.threads.pool {
            let threads = (1..=pool).map(|id| DiskIoThread { id });
            driver.io_threads = Some(DiskIoThreads {
                io_thread: threads.collect(),
            });
        } else if has_dedicated_io_thread(source) {
            driver.io_thread = Some(self.next_dedicated);
            self.next_dedicated += 1;
        } else if self.threads.automatic > 0 {
            driver.io_thread = Some(self.next_automatic);
            self.next_automatic = self.next_automatic % self.threads.automatic + 1;
        }
    }
}
