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

    /// Without its memory: that of QEMU has the guest's pages, of which a busy guest touches more and more.
    pub(super) fn without_memory(self) -> Holdings {
        Holdings {
            anonymous_kib: 0,
            ..self
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
