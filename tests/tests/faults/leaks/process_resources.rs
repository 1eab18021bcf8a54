//! The resources of a process.

use std::fs;

use anyhow::{Context, Result, ensure};
use tests::pod::Process;

/// The accepted growth: a connection that closes later, an allocator's arena.
const DESCRIPTORS: usize = 2;
const THREADS: usize = 2;
const KIBIBYTES: usize = 2048;

/// What a process holds.
#[derive(Debug)]
pub(super) struct Holdings {
    descriptors: usize,
    threads: usize,
    anonymous_kib: usize,
}

impl Holdings {
    pub(super) fn of(process: &Process) -> Result<Holdings> {
        let number = |title: &str| -> Result<usize> {
            let text = process
                .status(title)
                .with_context(|| format!("{title} of {process:?}"))?;
            Ok(text.trim_end_matches(" kB").trim().parse()?)
        };
        let descriptors = format!("/proc/{}/fd", process.pid.as_raw_nonzero());
        Ok(Holdings {
            descriptors: fs::read_dir(descriptors)?.count(),
            threads: number("Threads")?,
            anonymous_kib: number("RssAnon")?,
        })
    }

    /// The descriptors alone. QEMU's memory has the guest's pages, of which a busy guest touches more and more, and its pool of
    /// IO threads grows with the guest's IO.
    pub(super) fn descriptors_alone(self) -> Holdings {
        Holdings {
            descriptors: self.descriptors,
            threads: 0,
            anonymous_kib: 0,
        }
    }

    /// Fails if it is more than `before`, beyond what is accepted.
    pub(super) fn compare(&self, before: &Holdings) -> Result<()> {
        ensure!(
            self.descriptors <= before.descriptors + DESCRIPTORS
                && self.threads <= before.threads + THREADS
                && self.anonymous_kib <= before.anonymous_kib + KIBIBYTES,
            "it holds {self:?}, {before:?} before"
        );
        Ok(())
    }
}

/// The memory of one program after each of many repetitions.
#[derive(Debug, Default)]
pub(super) struct MemoryTrend(Vec<usize>);

impl MemoryTrend {
    pub(super) fn add(&mut self, holdings: &Holdings) {
        self.0.push(holdings.anonymous_kib);
    }

    /// The growth in KiB over all repetitions, by a line through all measurements: one that is high by chance says nothing.
    // A program has far less than 2^52 KiB, and there are few repetitions.
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

    /// Fails if it grows, beyond what is accepted.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn expect_flat(&self) -> Result<()> {
        let growth = self.growth_kib();
        ensure!(
            growth <= KIBIBYTES as f64,
            "its memory has grown by {growth:.0} KiB: {:?}",
            self.0
        );
        Ok(())
    }
}

/// The connections to the daemon's sockets in the network namespace of `process`.
pub(super) fn daemon_connections(process: &Process) -> Result<usize> {
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
