//! The form of a record: one JSON file per run, with all that a replay needs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use domain_xml::{Change, PathPattern};
use serde::{Deserialize, Serialize};

use super::{LogLevel, LogLine, Outcome, Witness};
use crate::policy::{Grant, Layer, Settings};
use crate::wasm::{Answer, Fixed};
use crate::{FailurePolicy, HookKind, HookPoint, Invocation, Limits, Reason};

/// The number in [`Record::version`].
pub(super) const VERSION: u32 = 1;

/// One run of one hook, as it is written down. Unknown members are ignored when it is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// 1.
    pub version: u32,
    /// Which hook.
    pub hook: Origin,
    /// KubeVirt's name of the hook point.
    pub hook_point: String,
    /// For which virtual machine, and why.
    pub invocation: Invoked,
    /// What the hook might use.
    pub limits: Used,
    /// What it was configured with.
    pub config: BTreeMap<String, String>,
    /// The directories that it might read. Their content is not in the record.
    pub dirs: Vec<PathBuf>,
    /// `Fail`, `Ignore` or `DryRun`.
    pub failure_policy: String,
    /// What it might change of the domain: every layer must permit a change. None: anything.
    pub grant: Option<Vec<Told>>,
    /// Its random numbers, as 64 hexadecimal digits; none for a sidecar.
    pub seed: Option<String>,
    /// Its time of day, in nanoseconds since 1970.
    pub time_ns: Option<u64>,
    /// What it was given.
    pub input: Input,
    /// What was kept out of this record because it may be secret.
    pub withheld: Vec<String>,
    /// `ok`, or how it failed: `veto`, `failed`, `trap`, `deadline`, `denied`, ...
    pub outcome: String,
    /// Why it failed.
    pub reason: Option<String>,
    /// What it gave back, used or not.
    pub output: Option<Output>,
    /// What it changed: path, kind, before, after.
    pub changes: Vec<(String, String, Option<String>, Option<String>)>,
    /// What it logged.
    pub log: Vec<Said>,
    /// How long it took.
    pub duration_micros: u64,
    /// Peak of its linear memories in bytes.
    pub peak_memory: usize,
}

/// A hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// What runs and errors call it.
    pub hook: String,
    /// What it calls itself.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// Its directory below the hooks directory.
    pub directory: String,
    /// Its file there.
    pub file: String,
    /// The sha256 of the module; none for a sidecar.
    pub digest: Option<String>,
    /// The version a sidecar was spoken to in; none for a module.
    pub sidecar: Option<String>,
}

/// Whose hooks ran, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Invoked {
    /// `boot`, `migration-target`, `shutdown`.
    pub reason: String,
    /// The virtual machine's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// libvirt's name of it.
    pub domain: String,
}

/// Limits of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Used {
    /// Milliseconds.
    pub deadline_ms: u64,
    /// Bytes.
    pub memory: usize,
    /// Table elements.
    pub table_elements: usize,
    /// Bytes.
    pub output: usize,
    /// Bytes.
    pub log: usize,
}

/// Patterns of one origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Who allowed them, and where.
    pub origin: String,
    /// What they allowed.
    pub patterns: Vec<String>,
}

/// What a hook is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// The VMI as JSON.
    pub vmi: String,
    /// At OnDefineDomain.
    pub domain_xml: Option<String>,
    /// At PreCloudInitIso: `noCloud` or `configDrive`.
    pub data_source: Option<String>,
    /// At PreCloudInitIso: names and texts.
    pub documents: Option<Vec<(String, String)>>,
}

/// What a hook gives back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// At OnDefineDomain.
    pub domain_xml: Option<String>,
    /// At PreCloudInitIso: names and texts.
    pub documents: Option<Vec<(String, String)>>,
}

/// A log line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// `debug`, `info`, `warn`, `error`.
    pub level: String,
    /// The line.
    pub message: String,
}

/// A hook's input or answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Given {
    DomainXml(String),
    Documents(Vec<(String, String)>),
}

impl Given {
    pub(crate) fn of(answer: &Answer) -> Option<Self> {
        match answer {
            Answer::Done => None,
            Answer::Documents(documents) => Some(Self::Documents(documents.clone())),
            Answer::DomainXml(xml) => Some(Self::DomainXml(xml.clone())),
        }
    }
}

impl From<Given> for Output {
    fn from(given: Given) -> Self {
        match given {
            Given::DomainXml(xml) => Self {
                domain_xml: Some(xml),
                documents: None,
            },
            Given::Documents(documents) => Self {
                domain_xml: None,
                documents: Some(documents),
            },
        }
    }
}

impl Record {
    /// Everything, secrets included.
    pub(super) fn of(witness: Witness<'_>) -> Self {
        let Witness { hook, run, .. } = witness;
        let settings = &hook.settings;
        let input = witness.input.map(Output::from).unwrap_or_default();
        Self {
            version: VERSION,
            hook: origin(&hook.info),
            hook_point: run.hook_point.name().to_owned(),
            invocation: Invoked::of(witness.invocation),
            limits: Used::of(&settings.limits),
            config: settings.config.clone(),
            dirs: settings.dirs.clone(),
            failure_policy: format!("{:?}", run.failure_policy),
            grant: told(&settings.grant),
            seed: witness.fixed.map(|fixed| hex(&fixed.seed)),
            time_ns: witness
                .fixed
                .and_then(|fixed| u64::try_from(fixed.time.as_nanos()).ok()),
            input: Input {
                vmi: witness.vmi.to_owned(),
                domain_xml: input.domain_xml,
                data_source: witness.data_source,
                documents: input.documents,
            },
            withheld: Vec::new(),
            outcome: outcome(&run.outcome).to_owned(),
            reason: match &run.outcome {
                Outcome::Ok => None,
                Outcome::Failed(error) => Some(error.to_string()),
            },
            output: witness.given.map(Output::from),
            changes: run.changes.iter().map(change).collect(),
            log: run.log.iter().map(Said::of).collect(),
            duration_micros: u64::try_from(run.duration.as_micros()).unwrap_or(u64::MAX),
            peak_memory: run.peak_memory,
        }
    }

    pub(super) fn fixed(&self) -> Option<Fixed> {
        let digits = self.seed.as_deref()?;
        let mut seed = [0; 32];
        for (index, byte) in seed.iter_mut().enumerate() {
            let pair = digits.get(2 * index..2 * index + 2)?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        let time = Duration::from_nanos(self.time_ns?);
        Some(Fixed { seed, time })
    }

    /// What the recorded hook might do and use; the error is what of it cannot be read.
    pub(super) fn settings(&self, base: &Limits) -> Result<Settings, String> {
        let layer = |told: &Told| -> Result<Layer, String> {
            let patterns = told.patterns.iter();
            let patterns = patterns.map(|pattern| PathPattern::parse(pattern));
            Ok(Layer {
                patterns: patterns
                    .collect::<Result<_, _>>()
                    .map_err(|e| e.to_string())?,
                origin: told.origin.clone(),
            })
        };
        let grant = match &self.grant {
            Some(layers) => Grant::new(layers.iter().map(layer).collect::<Result<_, _>>()?),
            None => Grant::unlimited(),
        };
        Ok(Settings {
            hook_points: Vec::new(),
            failure_policy: FailurePolicy::Fail,
            limits: self.limits.to_limits(base),
            config: self.config.clone(),
            dirs: self.dirs.clone(),
            grant,
        })
    }
}

impl Invoked {
    fn of(invocation: &Invocation) -> Self {
        Self {
            reason: invocation.reason.name().to_owned(),
            namespace: invocation.namespace.clone(),
            name: invocation.name.clone(),
            uid: invocation.uid.clone(),
            domain: invocation.domain.clone(),
        }
    }

    pub(super) fn to_invocation(&self) -> Invocation {
        let reasons = [Reason::Boot, Reason::MigrationTarget, Reason::Shutdown];
        let known = reasons
            .into_iter()
            .find(|reason| reason.name() == self.reason);
        Invocation {
            reason: known.unwrap_or_default(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            domain: self.domain.clone(),
        }
    }
}

impl Used {
    fn of(limits: &Limits) -> Self {
        Self {
            deadline_ms: u64::try_from(limits.call_deadline.as_millis()).unwrap_or(u64::MAX),
            memory: limits.memory,
            table_elements: limits.table_elements,
            output: limits.output,
            log: limits.log,
        }
    }

    fn to_limits(&self, base: &Limits) -> Limits {
        Limits {
            call_deadline: Duration::from_millis(self.deadline_ms),
            memory: self.memory,
            table_elements: self.table_elements,
            output: self.output,
            log: self.log,
            ..base.clone()
        }
    }
}

impl Said {
    pub(super) fn of(line: &LogLine) -> Self {
        let level = match line.level {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
        };
        Self {
            level: level.to_owned(),
            message: line.message.clone(),
        }
    }
}

fn origin(info: &crate::HookInfo) -> Origin {
    let (digest, sidecar) = match &info.kind {
        HookKind::Wasm { digest } => (Some(digest.clone()), None),
        HookKind::Sidecar { version } => (None, Some(version.clone())),
    };
    Origin {
        hook: info.hook.clone(),
        name: info.name.clone(),
        version: info.version.clone(),
        directory: info.directory.clone(),
        file: info.file.clone(),
        digest,
        sidecar,
    }
}

fn told(grant: &Grant) -> Option<Vec<Told>> {
    let told = |layer: &Layer| Told {
        origin: layer.origin.clone(),
        patterns: layer.patterns.iter().map(ToString::to_string).collect(),
    };
    grant
        .layers()
        .map(|layers| layers.iter().map(told).collect())
}

pub(super) fn outcome(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Failed(error) => error.kind(),
    }
}

pub(super) fn change(change: &Change) -> (String, String, Option<String>, Option<String>) {
    let kind = format!("{:?}", change.kind).to_lowercase();
    (
        change.path.clone(),
        kind,
        change.before.clone(),
        change.after.clone(),
    )
}

pub(super) fn point(name: &str) -> Option<HookPoint> {
    HookPoint::from_name(name)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
