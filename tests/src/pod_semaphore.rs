//! Limits how many pods run at once, across all test processes: an emulated guest that boots takes a whole core.

use std::fs::{self, File, OpenOptions};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::binaries::target_dir;

/// One per core of the CI machine.
const PERMITS: usize = 2;

/// The right to run one pod. A file lock, so the kernel releases it when the process ends in any way.
#[derive(Debug)]
pub struct PodPermit {
    _lock: File,
}

/// The right to wait for two permits. Two tests that each had one and waited for another would wait for ever.
#[derive(Debug)]
pub struct PairPermit {
    _lock: File,
}

/// Waits until nobody else takes two permits. To be held until both are taken.
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
