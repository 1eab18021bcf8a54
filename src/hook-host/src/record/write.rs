//! Records as files.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Given, Record, Run, secrets};
use crate::Invocation;
use crate::chain::Hook;
use crate::wasm::Fixed;

/// Where every run is written down: `SECONDS-SERIAL-POINT-HOOK.json`, one file per run. While runs
/// are recorded, modules get random numbers and a time of day that the record holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordConfig {
    /// Created with mode 0700 when it is not there; files in it have 0600.
    pub dir: PathBuf,
    /// Whether cloud-init data is written too: it may hold passwords and keys.
    pub secrets: bool,
}

/// Records cannot be written there.
#[derive(Debug, thiserror::Error)]
#[error("hook runs cannot be recorded in {path}: {source}")]
pub struct RecordError {
    path: PathBuf,
    source: io::Error,
}

/// A record is some kilobytes; a file system that takes longer hangs.
const WRITE: Duration = Duration::from_secs(2);

/// Writes records.
pub(crate) struct Recorder {
    config: RecordConfig,
    serial: AtomicU64,
}

/// All that is known of one run.
pub(crate) struct Witness<'a> {
    pub(crate) hook: &'a Hook,
    pub(crate) invocation: &'a Invocation,
    pub(crate) vmi: &'a str,
    pub(crate) input: Option<Given>,
    pub(crate) data_source: Option<String>,
    pub(crate) given: Option<Given>,
    pub(crate) fixed: Option<Fixed>,
    pub(crate) run: &'a Run,
}

impl Recorder {
    pub(crate) fn open(config: &RecordConfig) -> Result<Self, RecordError> {
        let created = DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(&config.dir);
        created.map_err(|source| RecordError {
            path: config.dir.clone(),
            source,
        })?;
        Ok(Self {
            config: config.clone(),
            serial: AtomicU64::new(0),
        })
    }

    /// What the next call is to see as random numbers and time; `None` when there is no chance.
    pub(crate) fn fix(&self) -> Option<Fixed> {
        let mut seed = [0; 32];
        File::open("/dev/urandom")
            .ok()?
            .read_exact(&mut seed)
            .ok()?;
        Some(Fixed { seed, time: now() })
    }

    /// Writes a run down. A full disk must not keep a virtual machine from starting: what goes
    /// wrong is logged.
    pub(crate) async fn keep(&self, witness: Witness<'_>) {
        let name = self.name(witness.run);
        let mut record = Record::of(witness);
        if !self.config.secrets {
            secrets::withhold(&mut record);
        }
        let path = self.config.dir.join(name);
        let written = tokio::task::spawn_blocking({
            let path = path.clone();
            move || write(&path, &record)
        });
        let error = match tokio::time::timeout(WRITE, written).await {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("not written within {WRITE:?}"),
        };
        tracing::warn!(path = %path.display(), error, "a hook's run could not be recorded");
    }

    fn name(&self, run: &Run) -> String {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        };
        let hook: String = run.hook.chars().map(plain).take(64).collect();
        format!(
            "{}-{serial:04}-{}-{hook}.json",
            now().as_secs(),
            run.hook_point
        )
    }
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// Whole or not at all.
fn write(path: &Path, record: &Record) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(record)?;
    let part = path.with_extension("part");
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&part)?;
    let written = file.write_all(&text);
    written
        .and_then(|()| std::fs::rename(&part, path))
        .inspect_err(|_| {
            // Nothing is left of it either way.
            let _ = std::fs::remove_file(&part);
        })
}
