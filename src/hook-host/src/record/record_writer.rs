//! Writes records to files, without delaying a boot for long.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::record_from_run::RunEvidence;
use super::record_json_format::Record;
use super::redaction;
use crate::Run;
use crate::fixed_clock_and_random::Determinism;

/// Where runs are recorded, one file per run: `SECONDS-SERIAL-POINT-HOOK.json`. While runs are recorded,
/// each call of a module gets a seed for its random numbers and a fixed time of day, which its record contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordConfig {
    /// The directory, created with mode 0700 if missing; files have mode 0600.
    pub dir: PathBuf,
    /// Whether values that may contain passwords and keys are written too: cloud-init data, facts about the pod that
    /// the policy does not let records keep, and log lines of the hooks that read them.
    pub secrets: bool,
}

/// The directory of records cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("hook runs cannot be recorded in {path}: {source}")]
pub struct RecordError {
    path: PathBuf,
    source: io::Error,
}

/// The timeout of creating the directory and of writing a record. A record has some kilobytes, so a file system that
/// needs longer is hanging.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// Writes records to the directory of a [`RecordConfig`].
pub(crate) struct RecordWriter {
    config: RecordConfig,
    /// The number of the next file.
    serial: AtomicU64,
    /// The source of random numbers, if it could be opened.
    random: Option<File>,
    /// Whether a write has timed out. Further writes would time out too and occupy a thread each, so none is started.
    stopped: AtomicBool,
    /// Whether at least one run was not recorded.
    has_unrecorded_run: AtomicBool,
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
        let created = match tokio::time::timeout(WRITE_TIMEOUT, created).await {
            Ok(created) => created.unwrap_or_else(|error| Err(error.into())),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the file system did not answer within {WRITE_TIMEOUT:?}"),
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
            has_unrecorded_run: AtomicBool::new(false),
            timeout: WRITE_TIMEOUT,
            write,
        }
    }

    /// A writer with another timeout and write function.
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

    /// Whether cloud-init data, and log lines of hooks that read it, may be written.
    pub(crate) fn keeps_secrets(&self) -> bool {
        self.config.secrets
    }

    /// Whether at least one run was not recorded.
    pub(crate) fn has_unrecorded_run(&self) -> bool {
        self.has_unrecorded_run.load(Ordering::Relaxed)
    }

    /// Whether recording has stopped after a timeout.
    fn has_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// A new seed and the current time for the next call; `None` if there is no random source, or if recording has
    /// stopped.
    pub(crate) fn new_determinism(&self) -> Option<Determinism> {
        if self.has_stopped() {
            return None;
        }
        let mut seed = [0; 32];
        self.random.as_ref()?.read_exact(&mut seed).ok()?;
        Some(Determinism { seed, time: now() })
    }

    /// Writes a record. A failure is only logged, because a full disk must not prevent the start of a virtual
    /// machine. After a timeout, recording stops.
    pub(crate) async fn record(&self, evidence: RunEvidence<'_>) {
        if self.has_stopped() {
            self.has_unrecorded_run.store(true, Ordering::Relaxed);
            return;
        }
        let name = self.file_name(evidence.run);
        let mut record = Record::from_evidence(evidence);
        let path = self.config.dir.join(name);
        let has_begun = Arc::new(AtomicBool::new(false));
        let mut written = tokio::task::spawn_blocking({
            let path = path.clone();
            let withhold = !self.config.secrets;
            let write = self.write;
            let has_begun = has_begun.clone();
            move || {
                has_begun.store(true, Ordering::Relaxed);
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
            Err(_) if !has_begun.load(Ordering::Relaxed) => {
                written.abort();
                "no thread was free to write it".to_owned()
            }
            Err(_) if self.stopped.swap(true, Ordering::Relaxed) => return,
            Err(_) => format!(
                "not written within {:?}; runs are not recorded any more until a restart",
                self.timeout
            ),
        };
        self.has_unrecorded_run.store(true, Ordering::Relaxed);
        tracing::warn!(path = %path.display(), error, "a hook's run could not be recorded");
    }

    fn file_name(&self, run: &Run) -> String {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let replace_special = |c: char| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        };
        let hook: String = run.hook.chars().map(replace_special).take(64).collect();
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
    let partial_file = path.with_extension("part");
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&partial_file)?;
    let written = file.write_all(&text);
    written
        .and_then(|()| std::fs::rename(&partial_file, path))
        .inspect_err(|_| {
            // If removing the partial file fails too, the first error is returned.
            let _ = std::fs::remove_file(&partial_file);
        })
}
