//! The resources of a process.

use std::fs;

use anyhow::{Context, Result, ensure};
use tests::pod::Process;

// The accepted growth: a connection may close later, an allocator may add an arena.
const DESCRIPTOR_TOLERANCE: usize = 2;
const THREAD_TOLERANCE: usize = 2;
const MEMORY_TOLERANCE_KIB: usize = 2048;

/// The file descriptors, threads and memory of a process.
#[derive(Debug)]
pub(super) struct ProcessResources {
    descriptors: usize,
    threads: usize,
    anonymous_kib: usize,
}

impl ProcessResources {
    pub(super) fn measure(process: &Process) -> Result<ProcessResources> {
        let number = |title: &str| -> Result<usize> {
            let text = process
                .status(title)
                .with_context(|| format!("{title} of {process:?}"))?;
            Ok(text.trim_end_matches(" kB").trim().parse()?)
        };
        let descriptors = format!("/proc/{}/fd", process.pid.as_raw_nonzero());
        Ok(ProcessResources {
            descriptors: fs::read_dir(descriptors)?.count(),
            threads: number("Threads")?,
            anonymous_kib: number("RssAnon")?,
        })
    }

    /// Only the descriptors. QEMU's memory contains the guest's pages, of which a busy guest touches more and more, and
    /// QEMU's pool of IO threads grows with the guest's IO.
    pub(super) fn only_descriptors(self) -> ProcessResources {
        ProcessResources {
            descriptors: self.descriptors,
            threads: 0,
            anonymous_kib: 0,
        }
    }

    /// Fails if the resources have grown since `before` by more than the tolerances.
    pub(super) fn compare(&self, before: &ProcessResources) -> Result<()> {
        ensure!(
            self.descriptors <= before.descriptors + DESCRIPTOR_TOLERANCE
                && self.threads <= before.threads + THREAD_TOLERANCE
                && self.anonymous_kib <= before.anonymous_kib + MEMORY_TOLERANCE_KIB,
            "it holds {self:?}, {before:?} before"
        );
        Ok(())
    }
}

/// The memory of one program after each of many repetitions.
#[derive(Debug, Default)]
pub(super) struct MemoryTrend(Vec<usize>);

impl MemoryTrend {
    pub(super) fn add(&mut self, resources: &ProcessResources) {
        self.0.push(resources.anonymous_kib);
    }

    /// The growth in KiB over all repetitions, from the regression line through all measurements, since a single one
    /// can be high by chance.
    // No precision is lost: a program has far less than 2^52 KiB, and there are few repetitions.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn growth_kib(&self) -> f64 {
        let count = self.0.len() as f64;
        let middle = (count - 1.0) / 2.0;
        let (mut covariance, mut variance) = (0.0, 0.0);
        for (index, kib) in self.0.iter().enumerate() {
            let distance = index as f64 - middle;
            covariance += distance * *kib as f64;
            variance += distance * distance;
        }
        match variance > 0.0 {
            true => covariance / variance * count,
            false => 0.0,
        }
    }

    /// Fails if the memory grows by more than the tolerance.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn expect_flat(&self) -> Result<()> {
        let growth = self.growth_kib();
        ensure!(
            growth <= MEMORY_TOLERANCE_KIB as f64,
            "its memory has grown by {growth:.0} KiB: {:?}",
            self.0
        );
        Ok(())
    }
}

/// The connections to the daemon's sockets in the network namespace of `process`.
pub(super) fn daemon_connections(process: &Process) -> Result<usize> {
    /// The socket state SS_CONNECTED.
    const CONNECTED: &str = "03";
    let table = format!("/proc/{}/net/unix", process.pid.as_raw_nonzero());
    let is_connection = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let path = words.get(7).copied().unwrap_or_default();
        words.get(5) == Some(&CONNECTED)
            && (path.ends_with("/virtqemud-sock") || path.ends_with("/libvirt-sock"))
    };
    let text = fs::read_to_string(table)?;
    Ok(text.lines().filter(is_connection).count())
}
