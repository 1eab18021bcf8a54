//! Limits how many pods run at once, across all test processes: an emulated guest that boots takes a whole core, and one
//! that has booted waits with its test.

use std::fs::{self, File, OpenOptions};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::binaries::target_dir;

/// The number of pods that run at once: two per core of the CI machine, which half of the time has nothing else to do.
const PERMITS: usize = 4;

/// The right to run one pod. It is a file lock, so that the kernel releases it however the process ends.
#[derive(Debug)]
pub struct PodPermit {
    _lock: File,
}

/// The right to acquire two permits. Two tests that each hold one permit and wait for a second would wait forever.
#[derive(Debug)]
pub struct PairPermit {
    _lock: File,
}

/// Waits until no other process acquires two permits. The caller holds the result until it has acquired both.
pub fn acquire_pair() -> Result<PairPermit> {
    let directory = target_dir().join("pod-semaphore");
    fs::create_dir_all(&directory).with_context(|| format!("{}", directory.display()))?;
    let path = directory.join("pair");
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let file = file.with_context(|| format!("{}", path.display()))?;
    file.lock()?;
    Ok(PairPermit { _lock: file })
}

/// Waits for a free permit.
pub fn acquire() -> Result<PodPermit> {
    let directory = target_dir().join("pod-semaphore");
    fs::create_dir_all(&directory).with_context(|| format!("{}", directory.display()))?;
    let files = (0..PERMITS)
        .map(|index| {
            let path = directory.join(index.to_string());
            let file = OpenOptions::new().create(true).append(true).open(&path);
            file.with_context(|| format!("{}", path.display()))
        })
        .collect::<Result<Vec<File>>>()?;
    loop {
        if let Some(index) = files.iter().position(|file| file.try_lock().is_ok()) {
            let mut files = files;
            return Ok(PodPermit {
                _lock: files.swap_remove(index),
            });
        }
        thread::sleep(Duration::from_millis(50));
    }
}
