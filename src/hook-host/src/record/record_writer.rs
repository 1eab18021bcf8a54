//! Writes records to files.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::build_record::RunEvidence;
use super::record_json_format::Record;
use super::redaction;
use crate::Run;
use crate::fixed_clock_and_random::Determinism;

/// Where runs are recorded, one file per run: `SECONDS-SERIAL-POINT-HOOK.json`. While runs
/// are recorded, modules get fixed random numbers and a fixed time of day, which the record contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordConfig {
    /// The directory, created with mode 0700 if missing; files have mode 0600.
    pub dir: PathBuf,
    /// Whether cloud-init data, facts about the pod that no policy lets records keep, and log lines of the hooks that
    /// read them are written too: they may contain passwords and keys.
    pub secrets: bool,
}

/// The directory of records cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("hook runs cannot be recorded in {path}: {source}")]
pub struct RecordError {
    path: PathBuf,
    source: io::Error,
}

/// A record has some kilobytes; a file system that needs longer than this hangs.
const WRITE: Duration = Duration::from_secs(2);

/// Writes records.
pub(crate) struct RecordWriter {
    config: RecordConfig,
    serial: AtomicU64,
    random: Option<File>,
    /// A write did not end in time. The next ones would hang too, with a thread each, so there are none.
    stopped: AtomicBool,
    /// A run was not recorded.
    lacks_run: AtomicBool,
    timeout: Duration,
    write: fn(&Path, &Record) -> io::Result<()>,
}

impl RecordWriter {
    /// Creates the directory if it is missing.
    pub(crate) async fn open(config: &RecordConfig) -> Result<Self, RecordError> {
        let dir = config.dir.clone();
        let created = tokio::task::spawn_blocking(move || {
            DirBuilder::new().mode(0o700).recursive(true).create(dir)
        });
        let created = match tokio::time::timeout(WRITE, created).await {
            Ok(created) => created.unwrap_or_else(|error| Err(error.into())),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the file system did not answer within {WRITE:?}"),
            )),
        };
        created.map_err(|source| RecordError {
            path: config.dir.clone(),
            source,
        })?;
        Ok(Self::new(config))
    }

    fn new(config: &RecordConfig) -> Self {
        Self {
            config: config.clone(),
            serial: AtomicU64::new(0),
            random: File::open("/dev/urandom").ok(),
            stopped: AtomicBool::new(false),
            lacks_run: AtomicBool::new(false),
            timeout: WRITE,
            write,
        }
    }

    /// A recorder that writes with `write`.
    #[cfg(test)]
    pub(crate) fn writing(
        dir: &Path,
        timeout: Duration,
        write: fn(&Path, &Record) -> io::Result<()>,
    ) -> Self {
        let config = RecordConfig {
            dir: dir.to_owned(),
            secrets: false,
        };
        Self {
            timeout,
            write,
            ..Self::new(&config)
        }
    }

    /// Whether cloud-init data, and what hooks log that read it, may be written.
    pub(crate) fn keeps_secrets(&self) -> bool {
        self.config.secrets
    }

    /// Whether a run was not recorded.
    pub(crate) fn lacks_run(&self) -> bool {
        self.lacks_run.load(Ordering::Relaxed)
    }

    /// Whether nothing is recorded any more.
    fn has_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// New random numbers and the current time for the next call; `None` if there is no random source, or
    /// nothing is recorded any more.
    pub(crate) fn new_determinism(&self) -> Option<Determinism> {
        if self.has_stopped() {
            return None;
        }
        let mut seed = [0; 32];
        self.random.as_ref()?.read_exact(&mut seed).ok()?;
        Some(Determinism { seed, time: now() })
    }

    /// Writes a record. A full disk must not keep a virtual machine from starting, so failures
    /// are only logged. After a write that did not end in time, nothing is written any more.
    pub(crate) async fn record(&self, evidence: RunEvidence<'_>) {
        if self.has_stopped() {
            self.lacks_run.store(true, Ordering::Relaxed);
            return;
        }
        let name = self.name(evidence.run);
        let mut record = Record::of(evidence);
        let path = self.config.dir.join(name);
        let began = Arc::new(AtomicBool::new(false));
        let mut written = tokio::task::spawn_blocking({
            let path = path.clone();
            let withhold = !self.config.secrets;
            let write = self.write;
            let began = began.clone();
            move || {
                began.store(true, Ordering::Relaxed);
                if withhold {
                    redaction::redact(&mut record);
                }
                write(&path, &record)
            }
        });
        let error = match tokio::time::timeout(self.timeout, &mut written).await {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) if !began.load(Ordering::Relaxed) => {
                written.abort();
                "no thread was free to write it".to_owned()
            }
            Err(_) if self.stopped.swap(true, Ordering::Relaxed) => return,
            Err(_) => format!(
                "not written within {:?}; runs are not recorded any more until a restart",
                self.timeout
            ),
        };
        self.lacks_run.store(true, Ordering::Relaxed);
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

/// Writes a file atomically, by rename.
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
            // Remove the partial file; if this fails too, the first error counts.
            let _ = std::fs::remove_file(&part);
        })
}
