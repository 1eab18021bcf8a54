//! Records of runs: one JSON file per run, with everything that [`crate::replay`] needs.

mod record_json_format;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use domain_xml::host::{Change, ChangeKind};
use serde_json::Value;

use crate::fixed_clock_and_random::Determinism;
use crate::hook::HookInfo;
use crate::pod_facts::PodFactEntry;
use crate::policy::EffectiveSettings;
use crate::sealed_changes::Seal;
use crate::{HookPoint, Invocation, Outcome, Run};
pub(crate) use record_json_format::HookPayload;
use record_json_format::VERSION;
pub use record_json_format::{
    GrantEntry, HookEntry, Input, InvocationEntry, LimitsUsed, LogEntry, Output, Record, SealEntry,
    SealedChange,
};

/// The inputs and results of one run, for its record.
pub(crate) struct RunEvidence<'a> {
    pub(crate) hook: &'a HookInfo,
    pub(crate) settings: &'a EffectiveSettings,
    pub(crate) invocation: &'a Invocation,
    pub(crate) vmi: &'a str,
    pub(crate) input: Option<HookPayload>,
    /// What final hooks had changed before.
    pub(crate) sealed: &'a [Seal],
    pub(crate) data_source: Option<String>,
    /// Whether the domain arrives by a migration.
    pub(crate) arrives: bool,
    pub(crate) output: Option<HookPayload>,
    pub(crate) determinism: Option<Determinism>,
    /// The hook's questions about the pod, with their answers.
    pub(crate) facts: Vec<PodFactEntry>,
    pub(crate) run: &'a Run,
}

impl Record {
    /// The complete record, secrets included.
    fn from_evidence(evidence: RunEvidence<'_>) -> Self {
        let RunEvidence {
            hook,
            settings,
            run,
            ..
        } = evidence;
        let input = evidence.input.map(Output::from).unwrap_or_default();
        Self {
            version: VERSION,
            hook: HookEntry::of(hook, settings.final_rule.as_deref()),
            hook_point: run.hook_point.name().to_owned(),
            invocation: InvocationEntry::of(evidence.invocation),
            migration: settings.migration.iter().map(ToString::to_string).collect(),
            limits: LimitsUsed::of(&settings.limits),
            config: settings.config.clone(),
            dirs: settings.dirs.clone(),
            dir_roots: match settings.dirs[..] {
                [] => Vec::new(),
                _ => settings.dir_roots.clone(),
            },
            failure_policy: format!("{:?}", run.failure_policy),
            grant: GrantEntry::all(&settings.grant),
            seed: evidence
                .determinism
                .map(|fixed| HEXLOWER.encode(&fixed.seed)),
            time_ns: evidence
                .determinism
                .and_then(|fixed| u64::try_from(fixed.time.as_nanos()).ok()),
            input: Input {
                vmi: evidence.vmi.to_owned(),
                domain_xml: input.domain_xml,
                arrives: evidence.arrives,
                device_xml: input.device_xml,
                data_source: evidence.data_source,
                documents: input.documents,
                parameters: input.parameters,
                pod: evidence.facts,
                sealed: evidence.sealed.iter().map(SealEntry::of).collect(),
            },
            withheld: Vec::new(),
            outcome: run.outcome.name().to_owned(),
            reason: match &run.outcome {
                Outcome::Ok => None,
                Outcome::Failed(error) => Some(error.to_string()),
            },
            output: evidence.output.map(Output::from),
            changes: run.changes.iter().map(change_entry).collect(),
            log: run.log.iter().map(LogEntry::of).collect(),
            duration_micros: u64::try_from(run.duration.as_micros()).unwrap_or(u64::MAX),
            peak_memory: run.peak_memory,
        }
    }
}

/// The kind of a change in records.
fn kind_name(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Inserted => "inserted",
        ChangeKind::Removed => "removed",
        ChangeKind::Edited => "edited",
        ChangeKind::Moved => "moved",
    }
}

fn change_entry(change: &Change) -> (String, String, Option<String>, Option<String>) {
    (
        change.path.clone(),
        kind_name(change.kind).to_owned(),
        change.before.clone(),
        change.after.clone(),
    )
}

impl SealEntry {
    fn of(seal: &Seal) -> Self {
        Self {
            hook: seal.hook.clone(),
            rule: seal.rule.clone(),
            path: seal.path.clone(),
            kind: seal.kind.into(),
        }
    }
}

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
                    redact(&mut record);
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

/// Maximum size of a record file in bytes: 64 MiB each for the input and the output (`MAX_OUTPUT`), doubled because
/// JSON escapes line breaks and quotes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordReadError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The text is not a record, or a record of another version.
    #[error("no record of a hook's run: {0}")]
    NotARecord(String),
}

impl Record {
    /// Reads a record file.
    pub fn read(path: &Path) -> Result<Self, RecordReadError> {
        Self::parse(&read_text(path)?)
    }

    /// Parses the text of a record file.
    pub fn parse(text: &str) -> Result<Self, RecordReadError> {
        let record: Self = serde_json::from_str(text)
            .map_err(|error| RecordReadError::NotARecord(error.to_string()))?;
        if record.version == VERSION {
            Ok(record)
        } else {
            let reason = format!("version {} is not {VERSION}", record.version);
            Err(RecordReadError::NotARecord(reason))
        }
    }
}

/// The text of a record file.
fn read_text(path: &Path) -> Result<String, RecordReadError> {
    let io_error = |source| RecordReadError::Io {
        path: path.to_owned(),
        source,
    };
    // Opening a pipe without a writer would block.
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open(path).map_err(io_error)?;
    let metadata = file.metadata().map_err(io_error)?;
    if !metadata.is_file() {
        return Err(io_error(io::Error::other("it is not a regular file")));
    }
    if metadata.len() > MAX_FILE_BYTES {
        let reason = format!("it has more than the {MAX_FILE_BYTES} bytes a record may have");
        return Err(io_error(io::Error::other(reason)));
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES)
        .read_to_string(&mut text)
        .map_err(io_error)?;
    Ok(text)
}

/// The members of cloud-init volumes that contain data rather than the name of a Secret.
const CLOUD_INIT_DATA_FIELDS: [&str; 4] = [
    "userData",
    "userDataBase64",
    "networkData",
    "networkDataBase64",
];
const CLOUD_INIT_VOLUMES: [&str; 2] = ["cloudInitNoCloud", "cloudInitConfigDrive"];
/// The annotation in which kubectl keeps a copy of the whole object.
const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Replaces cloud-init data, and facts whose recording is not allowed, by placeholders. `withheld` lists the removed
/// values.
fn redact(record: &mut Record) {
    let mut withheld = Vec::new();
    if let Ok(mut vmi) = serde_json::from_str::<Value>(&record.input.vmi) {
        redact_vmi(&mut vmi, &mut withheld);
        if !withheld.is_empty() {
            record.input.vmi = vmi.to_string();
        }
    }
    let output_documents = record
        .output
        .as_mut()
        .and_then(|output| output.documents.as_mut());
    for (side, documents) in [
        ("input", record.input.documents.as_mut()),
        ("output", output_documents),
    ] {
        for (name, text) in documents.into_iter().flatten() {
            withheld.push(format!("{side}: {name}"));
            *text = placeholder(text);
        }
    }
    let reads_secret_facts = record
        .input
        .pod
        .iter()
        .any(PodFactEntry::is_withheld_secret);
    for read in &mut record.input.pod {
        if let Some(value) = read.value.as_mut().filter(|_| !read.may_be_recorded) {
            withheld.push(format!("input: the pod's {}", read.fact));
            *value = placeholder(value);
        }
    }
    // A hook can log the cloud-init data or annotations that it reads.
    let reads_secrets =
        reads_secret_facts || record.hook_point == HookPoint::PreCloudInitIso.name();
    if reads_secrets && !record.log.is_empty() {
        withheld.push(format!("log: {} lines", record.log.len()));
        for line in &mut record.log {
            line.message = placeholder(&line.message);
        }
    }
    record.withheld = withheld;
}

fn redact_vmi(vmi: &mut Value, withheld: &mut Vec<String>) {
    if let Some(copy) = vmi
        .pointer_mut("/metadata/annotations")
        .and_then(|annotations| annotations.get_mut(LAST_APPLIED_ANNOTATION))
    {
        redact_value(
            copy,
            format!("vmi: the annotation {LAST_APPLIED_ANNOTATION}"),
            withheld,
        );
    }
    let volumes = vmi
        .pointer_mut("/spec/volumes")
        .and_then(Value::as_array_mut);
    for (index, volume) in volumes.into_iter().flatten().enumerate() {
        for kind in CLOUD_INIT_VOLUMES {
            for member in CLOUD_INIT_DATA_FIELDS {
                if let Some(text) = volume
                    .get_mut(kind)
                    .and_then(|volume| volume.get_mut(member))
                {
                    let path = format!("vmi: spec.volumes[{index}].{kind}.{member}");
                    redact_value(text, path, withheld);
                }
            }
        }
    }
}

fn redact_value(value: &mut Value, path: String, withheld: &mut Vec<String>) {
    let text = value.as_str().unwrap_or_default();
    *value = placeholder(text).into();
    withheld.push(path);
}

fn placeholder(text: &str) -> String {
    format!("(withheld: {} bytes)", text.len())
}
