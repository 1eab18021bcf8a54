//! The limits of hooks, derived from the container's limits in its cgroup.
//!
//! KubeVirt gives a sidecar of a guaranteed VM 64 MB and a fifth of a processor. When any process of
//! a container runs out of memory, the kernel kills the whole container; so compiling and hooks get
//! lower limits than the container, and exceeding these is an error with a message.

#[cfg(test)]
mod tests;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Error, anyhow};
use hook_host::Limits;
use hook_host::wasm::LoadError;

use crate::verb_failure::error_text;

const MIB: u64 = 1 << 20;
/// Memory reserved for this process and for cached pages.
const RESERVED_MEMORY: u64 = 24 * MIB;
/// The smallest memory limit of compilations and hooks: with less, no compilation can succeed.
const MIN_MEMORY: u64 = 8 * MIB;
/// In cgroup v1, numbers from this one on mean "no limit".
const UNLIMITED: u64 = 1 << 60;
/// With less memory than this, compiling uses one thread: each thread needs its own memory.
const SINGLE_THREAD_MEMORY: u64 = 256 * MIB;
/// The longest compile deadline: a launcher waits four minutes for its sidecars.
const MAX_COMPILE_DEADLINE: Duration = Duration::from_secs(180);

/// The container's limits; `None` means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct CgroupLimits {
    /// In bytes.
    memory: Option<u64>,
    /// Number of processors; 0.2 is a fifth of one.
    processors: Option<f64>,
}

/// KubeVirt's limits of the sidecar of a guaranteed VM.
const SMALLEST_SIDECAR: CgroupLimits = CgroupLimits {
    memory: Some(64_000_000),
    processors: Some(0.2),
};

/// The limits of hooks in the sidecar of a guaranteed VM.
pub(crate) fn smallest_limits() -> Limits {
    SMALLEST_SIDECAR.limits()
}

impl CgroupLimits {
    pub(crate) fn read() -> Self {
        Self::read_below(Path::new("/"))
    }

    fn read_below(root: &Path) -> Self {
        let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let mut cgroup = Self::default();
        for group in groups
            .lines()
            .filter_map(|line| ProcessCgroup::parse(line, root))
        {
            for directory in group.directories() {
                cgroup.narrow(&directory);
            }
        }
        cgroup
    }

    /// Applies the limits of one group. A process is limited by its group and all parent groups.
    fn narrow(&mut self, directory: &Path) {
        let number = |file: &str| read(directory, file)?.parse::<u64>().ok();
        let memory = number("memory.max").or_else(|| number("memory.limit_in_bytes"));
        let memory = memory.filter(|bytes| *bytes < UNLIMITED);
        self.memory = [self.memory, memory].into_iter().flatten().min();
        let quota = cgroup_v2_processors(directory).or_else(|| {
            let (quota, period) = (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?);
            processor_share(quota, period)
        });
        self.processors = [self.processors, quota]
            .into_iter()
            .flatten()
            .reduce(f64::min);
    }

    /// The limits of hooks in this container; the defaults if the container is unlimited.
    pub(crate) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        if let Some(memory) = self.memory {
            let available = usize::try_from(memory.saturating_sub(RESERVED_MEMORY).max(MIN_MEMORY));
            let available = available.unwrap_or(usize::MAX);
            limits.compile_memory = limits.compile_memory.min(available);
            limits.memory = limits.memory.min(available);
            if memory < SINGLE_THREAD_MEMORY {
                limits.compile_threads = 1;
            }
        }
        if let Some(share) = self.processors.filter(|share| *share < 1.0) {
            let deadline =
                Duration::try_from_secs_f64(limits.compile_deadline.as_secs_f64() / share);
            limits.compile_deadline = deadline
                .unwrap_or(MAX_COMPILE_DEADLINE)
                .min(MAX_COMPILE_DEADLINE);
        }
        limits
    }

    /// Adds the container's limits to an error about compile limits.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let load_error = error.downcast_ref::<LoadError>();
        if !load_error.is_some_and(LoadError::exceeds_compile_limits) || *self == Self::default() {
            return error;
        }
        let text = error_text(&error);
        anyhow!(
            "{text}; this container has {self}, and {} MiB of that are left to compile with: give \
             sidecars more (supportContainerResources of type sidecar in the KubeVirt resource), \
             or use a smaller module",
            self.limits().compile_memory as u64 / MIB
        )
    }
}

impl fmt::Display for CgroupLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.memory {
            Some(memory) => write!(f, "{} MiB of memory", memory / MIB)?,
            None => f.write_str("all memory")?,
        }
        match self.processors {
            Some(share) => write!(f, " and {share:.2} processors"),
            None => f.write_str(" and all processors"),
        }
    }
}

/// One cgroup hierarchy and this process's path in it.
struct ProcessCgroup {
    mount: PathBuf,
    path: String,
}

impl ProcessCgroup {
    /// A line of /proc/self/cgroup: `0::/path`, or with version 1 `4:memory:/path`.
    fn parse(line: &str, root: &Path) -> Option<Self> {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let cgroups = root.join("sys/fs/cgroup");
        let mount = match controllers {
            "" => cgroups,
            list => {
                let has_limits = |name: &&str| matches!(*name, "memory" | "cpu");
                cgroups.join(list.split(',').find(has_limits)?)
            }
        };
        Some(Self {
            mount,
            path: path.trim_start_matches('/').to_owned(),
        })
    }

    /// The directories from the group up to the mount. In a container the mount is often the group itself, whatever the
    /// path says.
    fn directories(&self) -> impl Iterator<Item = PathBuf> {
        let ancestors = Path::new(&self.path).ancestors();
        ancestors.map(|path| self.mount.join(path))
    }
}

fn read(directory: &Path, file: &str) -> Option<String> {
    let text = fs::read_to_string(directory.join(file)).ok()?;
    Some(text.trim().to_owned())
}

/// The share of a processor in `cpu.max` of cgroup v2: `20000 100000`, or `max 100000` without a limit.
fn cgroup_v2_processors(directory: &Path) -> Option<f64> {
    let text = read(directory, "cpu.max")?;
    let (quota, period) = text.split_once(' ')?;
    processor_share(quota.parse().ok()?, period.parse().ok()?)
}

#[allow(clippy::cast_precision_loss)]
fn processor_share(quota: u64, period: u64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}
