//! The JSON format of a record: one file per run, with everything that a replay needs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain_xml::host::ChangeKind;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::RecordReadError;
use crate::fixed_clock_and_random::Determinism;
use crate::hook::{HookInfo, HookKind};
use crate::pod_facts::{PodFactEntry, PodGrant};
use crate::policy::permission::DangerKind;
use crate::policy::{
    EffectiveSettings, Grant, Layer, MAX_DEADLINE, MAX_LOG, MAX_MEMORY, MAX_OUTPUT,
};
use crate::sealed_changes::Seal;
use crate::{
    ConditionedPath, FailurePolicy, Invocation, Limits, LogLevel, LogLine, MigrationParameter,
    Reason,
};

/// The number in [`Record::version`].
pub(super) const VERSION: u32 = 1;
/// Maximum number of layers of a grant. A grant has a layer for the wishes, for hook.yaml, and for each part of a
/// policy.
pub(super) const MAX_LAYERS: usize = 16;
/// Maximum number of paths of a layer, far more than a policy has.
pub(super) const MAX_PATTERNS: usize = 4096;

/// The record of one run of one hook. Unknown members are ignored when a record is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The version of the format, 1.
    pub version: u32,
    /// The hook.
    pub hook: HookEntry,
    /// KubeVirt's name of the hook point.
    pub hook_point: String,
    /// The virtual machine, and why its hooks ran.
    pub invocation: InvocationEntry,
    /// The parameters of a migration that the hook was allowed to change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub migration: Vec<String>,
    /// The limits of the call.
    pub limits: LimitsUsed,
    /// The hook's configuration.
    pub config: BTreeMap<String, String>,
    /// The directories that the hook was allowed to read. Their content is not in the record.
    pub dirs: Vec<PathBuf>,
    /// The directories of the operator's policy, out of which no link is followed. Empty in records of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dir_roots: Vec<PathBuf>,
    /// `Fail`, `Ignore` or `DryRun`.
    pub failure_policy: String,
    /// The grant: every layer must permit a change. `None` permits everything.
    pub grant: Option<Vec<GrantEntry>>,
    /// The seed of the hook's random numbers, as 64 hexadecimal digits; `None` for a sidecar.
    pub seed: Option<String>,
    /// The hook's time of day, in nanoseconds since 1970; `None` for a sidecar.
    pub time_ns: Option<u64>,
    /// The input.
    pub input: Input,
    /// The values that were left out of this record because they may be secret.
    pub withheld: Vec<String>,
    /// `ok`, or the kind of failure: `veto`, `failed`, `trap`, `deadline`, `denied`, ...
    pub outcome: String,
    /// Why the run failed.
    pub reason: Option<String>,
    /// The hook's output, used or not.
    pub output: Option<Output>,
    /// The changes: path, kind, value before, value after.
    pub changes: Vec<(String, String, Option<String>, Option<String>)>,
    /// The hook's log lines.
    pub log: Vec<LogEntry>,
    /// The duration of the run in microseconds.
    pub duration_micros: u64,
    /// The peak size of the linear memories in bytes.
    pub peak_memory: usize,
}

/// The hook that ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookEntry {
    /// The name in runs and errors.
    pub hook: String,
    /// The name in its description.
    pub name: String,
    /// The version in its description.
    pub version: String,
    /// The directory below the hooks directory.
    pub directory: String,
    /// The file in that directory.
    pub file: String,
    /// The sha256 of the module; `None` for a sidecar.
    pub digest: Option<String>,
    /// The protocol version of a sidecar; `None` for a module.
    pub sidecar: Option<String>,
    /// Hook points at which a plugin's hook should have been called, too, but plugins are not called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncalled_points: Vec<String>,
    /// File, line and column of the `final` in the operator's policy that makes it a final hook; `None` for others.
    #[serde(rename = "final", default, skip_serializing_if = "Option::is_none")]
    pub final_rule: Option<String>,
}

/// The virtual machine whose hooks ran, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InvocationEntry {
    /// `boot`, `migration-target`, `hotplug`, `migration-source`, `shutdown`.
    pub reason: String,
    /// The virtual machine's namespace.
    pub namespace: String,
    /// The virtual machine's name.
    pub name: String,
    /// The virtual machine's uid.
    pub uid: String,
    /// The name of the libvirt domain.
    pub domain: String,
}

/// Limits of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitsUsed {
    /// The deadline in milliseconds.
    pub deadline_ms: u64,
    /// Linear memories in bytes.
    pub memory: usize,
    /// Number of table elements.
    pub table_elements: usize,
    /// The output in bytes.
    pub output: usize,
    /// The log in bytes.
    pub log: usize,
}

/// One layer of the grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantEntry {
    /// The origin of the patterns.
    pub origin: String,
    /// The origin of those of the dangerous set, if it is another one.
    #[serde(
        rename = "dangerousOrigin",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub dangerous_origin: Option<String>,
    /// The path patterns: texts, or objects with a path and a condition, as in a module's wishes. They are parsed when
    /// the record is used, after their number was checked.
    pub patterns: Vec<Value>,
    /// The kinds of the dangerous set, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
}

/// The input of a hook.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// The VMI as JSON.
    pub vmi: String,
    /// The domain XML, at OnDefineDomain.
    pub domain_xml: Option<String>,
    /// Whether the domain arrives by a migration, at OnDefineDomain. Then only changes that libvirt accepts are
    /// permitted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub arrives: bool,
    /// The device XML, at OnAttachDevice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_xml: Option<String>,
    /// `noCloud` or `configDrive`, at PreCloudInitIso.
    pub data_source: Option<String>,
    /// Names and texts of the documents, at PreCloudInitIso.
    pub documents: Option<Vec<(String, String)>>,
    /// Names and values of the parameters, at PreMigrationSource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<(String, String)>>,
    /// The hook's questions about the pod with their answers, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod: Vec<PodFactEntry>,
    /// What final hooks had changed before, which the hook could not change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sealed: Vec<SealEntry>,
}

/// A change of a final hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealEntry {
    /// The final hook.
    pub hook: String,
    /// File, line and column of the `final` in the operator's policy.
    pub rule: String,
    /// The path of the change.
    pub path: String,
    /// What the hook did there.
    pub kind: SealedChange,
}

/// What a final hook did to a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SealedChange {
    /// The place is new.
    Inserted,
    /// The place was removed.
    Removed,
    /// The value changed.
    Edited,
    /// The element has another position.
    Moved,
}

impl From<ChangeKind> for SealedChange {
    fn from(kind: ChangeKind) -> Self {
        match kind {
            ChangeKind::Inserted => Self::Inserted,
            ChangeKind::Removed => Self::Removed,
            ChangeKind::Edited => Self::Edited,
            ChangeKind::Moved => Self::Moved,
        }
    }
}

impl From<SealedChange> for ChangeKind {
    fn from(change: SealedChange) -> Self {
        match change {
            SealedChange::Inserted => Self::Inserted,
            SealedChange::Removed => Self::Removed,
            SealedChange::Edited => Self::Edited,
            SealedChange::Moved => Self::Moved,
        }
    }
}

/// The output of a hook.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The domain XML, at OnDefineDomain.
    pub domain_xml: Option<String>,
    /// The device XML, at OnAttachDevice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_xml: Option<String>,
    /// Names and texts of the documents, at PreCloudInitIso.
    pub documents: Option<Vec<(String, String)>>,
    /// Names and values of the parameters, at PreMigrationSource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<(String, String)>>,
}

/// A log line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// `debug`, `info`, `warn`, `error`.
    pub level: String,
    /// The text.
    pub message: String,
}

/// The document with which a hook was called, or which it returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HookPayload {
    DomainXml(String),
    DeviceXml(String),
    Documents(Vec<(String, String)>),
    Parameters(Vec<(String, String)>),
}

impl From<HookPayload> for Output {
    fn from(payload: HookPayload) -> Self {
        match payload {
            HookPayload::DomainXml(xml) => Self {
                domain_xml: Some(xml),
                ..Self::default()
            },
            HookPayload::DeviceXml(xml) => Self {
                device_xml: Some(xml),
                ..Self::default()
            },
            HookPayload::Parameters(parameters) => Self {
                parameters: Some(parameters),
                ..Self::default()
            },
            HookPayload::Documents(documents) => Self {
                documents: Some(documents),
                ..Self::default()
            },
        }
    }
}

impl Record {
    /// The recorded random numbers and time, if the run had any.
    pub(crate) fn determinism(&self) -> Option<Determinism> {
        let digits = self.seed.as_deref()?;
        let mut seed = [0; 32];
        for (index, byte) in seed.iter_mut().enumerate() {
            let pair = digits.get(2 * index..2 * index + 2)?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        let time = Duration::from_nanos(self.time_ns?);
        Some(Determinism { seed, time })
    }

    /// The settings of the recorded hook. The error names the invalid member.
    pub(crate) fn settings(&self, base: &Limits) -> Result<EffectiveSettings, RecordReadError> {
        let layer = |entry: &GrantEntry| -> Result<Layer, RecordReadError> {
            // A record can come from an untrusted source, so its patterns have the limits of all other patterns.
            let paths = entry.patterns.iter();
            let paths = paths.map(ConditionedPath::deserialize);
            let kinds = entry.kinds.iter().map(|kind| kind.parse::<DangerKind>());
            let paths = paths
                .collect::<Result<_, _>>()
                .map_err(|error| RecordReadError::NotARecord(error.to_string()))?;
            let kinds = kinds
                .collect::<Result<_, _>>()
                .map_err(|error| RecordReadError::NotARecord(error.to_string()))?;
            let layer = Layer::new(paths, &*entry.origin).with_kinds(kinds);
            Ok(match &entry.dangerous_origin {
                Some(origin) => layer.with_dangerous_origin(&**origin),
                None => layer,
            })
        };
        let layers = self.grant.as_deref().unwrap_or_default();
        for (what, count, max) in [
            ("layers of grants", layers.len(), MAX_LAYERS),
            (
                "paths in a layer of grants",
                layers
                    .iter()
                    .map(|layer| layer.patterns.len())
                    .max()
                    .unwrap_or(0),
                MAX_PATTERNS,
            ),
        ] {
            if count > max {
                let reason = format!("{count} {what}, and {max} is the most");
                return Err(RecordReadError::NotARecord(reason));
            }
        }
        let is_below_a_root =
            |dir: &&PathBuf| self.dir_roots.iter().any(|root| dir.starts_with(root));
        if let Some(dir) = self.dirs.iter().find(|dir| !is_below_a_root(dir)) {
            let reason = format!(
                "the hook could read {}, and the record does not tell which directory of the operator's policy contains it; a record \
                 of this version does",
                dir.display()
            );
            return Err(RecordReadError::NotARecord(reason));
        }
        let grant = match &self.grant {
            Some(layers) => Grant::new(layers.iter().map(layer).collect::<Result<_, _>>()?),
            None => Grant::unlimited(),
        };
        Ok(EffectiveSettings {
            hook_points: Vec::new(),
            failure_policy: FailurePolicy::Fail,
            final_rule: self.hook.final_rule.clone(),
            limits: self.limits.to_limits(base)?,
            config: self.config.clone(),
            dirs: self.dirs.clone(),
            dir_roots: self.dir_roots.clone(),
            migration: self
                .migration
                .iter()
                .map(|name| MigrationParameter::from_name(name))
                .collect::<Result<_, _>>()
                .map_err(|error| RecordReadError::NotARecord(error.to_string()))?,
            // A replay answers questions from the record and needs no grant.
            pod: Arc::new(PodGrant::default()),
            grant,
        })
    }
}

impl Input {
    /// What final hooks had changed before.
    pub(crate) fn seals(&self) -> impl Iterator<Item = Seal> {
        self.sealed.iter().map(|entry| Seal {
            hook: entry.hook.clone(),
            rule: entry.rule.clone(),
            path: entry.path.clone(),
            kind: entry.kind.into(),
        })
    }
}

impl InvocationEntry {
    pub(super) fn of(invocation: &Invocation) -> Self {
        Self {
            reason: invocation.reason.name().to_owned(),
            namespace: invocation.namespace.clone(),
            name: invocation.name.clone(),
            uid: invocation.uid.clone(),
            domain: invocation.domain.clone(),
        }
    }

    /// The invocation; an unknown reason becomes the default one.
    pub(crate) fn to_invocation(&self) -> Invocation {
        let reason = Reason::ALL
            .into_iter()
            .find(|reason| reason.name() == self.reason);
        Invocation {
            reason: reason.unwrap_or_default(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            domain: self.domain.clone(),
        }
    }
}

impl LimitsUsed {
    pub(super) fn of(limits: &Limits) -> Self {
        Self {
            deadline_ms: u64::try_from(limits.call_deadline.as_millis()).unwrap_or(u64::MAX),
            memory: limits.memory,
            table_elements: limits.table_elements,
            output: limits.output,
            log: limits.log,
        }
    }

    /// The limits. A record can come from an untrusted source, so they must not exceed what a hook.yaml could set.
    fn to_limits(&self, base: &Limits) -> Result<Limits, RecordReadError> {
        let call_deadline = Duration::from_millis(self.deadline_ms);
        if call_deadline > MAX_DEADLINE {
            let reason =
                format!("a deadline of {call_deadline:?}, and {MAX_DEADLINE:?} is the most");
            return Err(RecordReadError::NotARecord(reason));
        }
        for (name, value, max) in [
            ("memory", self.memory, MAX_MEMORY),
            ("output", self.output, MAX_OUTPUT),
            ("log", self.log, MAX_LOG),
            ("table elements", self.table_elements, base.table_elements),
        ] {
            if value > max {
                let reason = format!("{name} of {value}, and {max} is the most");
                return Err(RecordReadError::NotARecord(reason));
            }
        }
        Ok(Limits {
            call_deadline,
            memory: self.memory,
            table_elements: self.table_elements,
            output: self.output,
            log: self.log,
            ..base.clone()
        })
    }
}

impl LogEntry {
    pub(crate) fn of(line: &LogLine) -> Self {
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

impl HookEntry {
    pub(super) fn of(info: &HookInfo, final_rule: Option<&str>) -> Self {
        let (digest, sidecar) = match &info.kind {
            HookKind::Wasm { digest } => (Some(digest.clone()), None),
            HookKind::Sidecar { version } => (None, Some(version.clone())),
        };
        Self {
            hook: info.hook.clone(),
            name: info.name.clone(),
            version: info.version.clone(),
            directory: info.directory.clone(),
            file: info.file.clone(),
            digest,
            sidecar,
            uncalled_points: info.uncalled_points.clone(),
            final_rule: final_rule.map(str::to_owned),
        }
    }
}

impl GrantEntry {
    /// One entry per layer; `None` if everything is permitted.
    pub(super) fn all(grant: &Grant) -> Option<Vec<Self>> {
        let entry = |layer: &Layer| Self {
            origin: layer.origin.clone(),
            dangerous_origin: layer.dangerous_origin.clone(),
            patterns: layer.paths.iter().map(|path| json!(path)).collect(),
            kinds: layer
                .granted_dangers
                .iter()
                .map(|kind| kind.name().to_owned())
                .collect(),
        };
        grant
            .layers()
            .map(|layers| layers.iter().map(entry).collect())
    }
}
