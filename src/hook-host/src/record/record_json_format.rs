//! The JSON format of a record: one file per run, with everything that a replay needs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::pod_facts::PodFactEntry;

/// The number in [`Record::version`].
pub(super) const VERSION: u32 = 1;

/// The most layers of a grant: wishes, hook.yaml, and the parts of a policy.
pub(super) const MAX_LAYERS: usize = 16;
/// The most paths of a layer, far more than a policy has.
pub(super) const MAX_PATTERNS: usize = 4096;

/// The record of one run of one hook. Unknown members are ignored when a record is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// 1.
    pub version: u32,
    /// The hook.
    pub hook: HookEntry,
    /// KubeVirt's name of the hook point.
    pub hook_point: String,
    /// The virtual machine and the reason.
    pub invocation: InvocationEntry,
    /// The parameters of a migration that the hook could change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub migration: Vec<String>,
    /// The limits of the call.
    pub limits: LimitsUsed,
    /// The hook's configuration.
    pub config: BTreeMap<String, String>,
    /// The directories that the hook could read. Their content is not in the record.
    pub dirs: Vec<PathBuf>,
    /// The directories of the operator's policy; no link in one of them leads out of it. None in records of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dir_roots: Vec<PathBuf>,
    /// `Fail`, `Ignore` or `DryRun`.
    pub failure_policy: String,
    /// The grant: every layer must permit a change. `None` permits everything.
    pub grant: Option<Vec<GrantEntry>>,
    /// The seed of its random numbers, as 64 hexadecimal digits; none for a sidecar.
    pub seed: Option<String>,
    /// Its time of day, in nanoseconds since 1970.
    pub time_ns: Option<u64>,
    /// The input.
    pub input: Input,
    /// What was left out of this record because it may be secret.
    pub withheld: Vec<String>,
    /// `ok`, or how it failed: `veto`, `failed`, `trap`, `deadline`, `denied`, ...
    pub outcome: String,
    /// Why the run failed.
    pub reason: Option<String>,
    /// The hook's output, used or not.
    pub output: Option<Output>,
    /// The changes: path, kind, before, after.
    pub changes: Vec<(String, String, Option<String>, Option<String>)>,
    /// The log.
    pub log: Vec<LogEntry>,
    /// Duration in microseconds.
    pub duration_micros: u64,
    /// Peak of the linear memories in bytes.
    pub peak_memory: usize,
}

/// A hook.
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
    /// The sha256 of the module; none for a sidecar.
    pub digest: Option<String>,
    /// The protocol version of a sidecar; none for a module.
    pub sidecar: Option<String>,
}

/// The virtual machine whose hooks ran, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InvocationEntry {
    /// `boot`, `migration-target`, `hotplug`, `migration-source`, `shutdown`.
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
pub struct LimitsUsed {
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

/// One layer of the grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantEntry {
    /// Where the patterns are from.
    pub origin: String,
    /// The path patterns.
    pub patterns: Vec<String>,
    /// The classes of the dangerous set, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
}

/// The input of a hook.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// The VMI as JSON.
    pub vmi: String,
    /// At OnDefineDomain.
    pub domain_xml: Option<String>,
    /// At OnDefineDomain: the domain arrives by a migration, and only what libvirt accepts then may be changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub arrives: bool,
    /// At OnAttachDevice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_xml: Option<String>,
    /// At PreCloudInitIso: `noCloud` or `configDrive`.
    pub data_source: Option<String>,
    /// At PreCloudInitIso: names and texts.
    pub documents: Option<Vec<(String, String)>>,
    /// At PreMigrationSource: names and values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<(String, String)>>,
    /// The facts about the pod that the hook asked for, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod: Vec<PodFactEntry>,
}

/// The output of a hook.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// At OnDefineDomain.
    pub domain_xml: Option<String>,
    /// At OnAttachDevice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_xml: Option<String>,
    /// At PreCloudInitIso: names and texts.
    pub documents: Option<Vec<(String, String)>>,
    /// At PreMigrationSource: names and values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<(String, String)>>,
}

/// A log line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// `debug`, `info`, `warn`, `error`.
    pub level: String,
    /// The line.
    pub message: String,
}

/// The domain XML or the documents that a hook was called with or returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HookPayload {
    DomainXml(String),
    DeviceXml(String),
    Documents(Vec<(String, String)>),
    Parameters(Vec<(String, String)>),
}
