//! Replays a recorded run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain_xml::Document;
use domain_xml::host::{Change, diff};
use futures_util::future::BoxFuture;

use crate::fixed_clock_and_random::Determinism;
use crate::hook::{Hook, HookInfo, HookKind};
use crate::hook_body::{HookBody, HookCall, HookReport};
use crate::invoke::rerun;
use crate::pod_facts::PodFactSource;
use crate::record::{LogEntry, Output, Record, RecordReadError};
use crate::wasm::{LoadError, LoadOptions, Loader, Module};
use crate::{HookPoint, Outcome, Run};

/// Why a record cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The record cannot be read, or a part of it is invalid.
    #[error(transparent)]
    Record(#[from] RecordReadError),
    /// The recorded hook is a sidecar, and `port` is not set.
    #[error("it is the run of a gRPC sidecar: give the module that is to do the same")]
    Sidecar,
    /// The module's digest is not the recorded one.
    #[error("{path} has the sha256 {found}, the recorded module had {recorded}")]
    OtherModule {
        /// The file of the module.
        path: PathBuf,
        /// The module's digest.
        found: String,
        /// The recorded digest.
        recorded: String,
    },
    /// The hook's input was left out of the record.
    #[error("{0} was withheld from the record: record with secrets to replay it")]
    Withheld(String),
    /// The module cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// A replay and its comparison with the record.
#[derive(Debug, Clone)]
pub struct ReplayResult {
    /// The replay.
    pub run: Run,
    /// The output of the replay.
    pub output: Option<Output>,
    /// The difference between the record and the replay.
    pub difference: Difference,
    /// The values that were withheld from the record. The hook reads placeholders instead.
    pub withheld: Vec<String>,
}

/// Replays a recorded run with the recorded input, limits, grants, random numbers and time of day. `module`
/// is the recorded module, whose digest must match; or, with `port`, another module that should have the
/// same effect.
pub async fn replay(
    record: &Record,
    module: &Path,
    port: bool,
    options: LoadOptions,
) -> Result<ReplayResult, ReplayError> {
    if let Some(value) = withheld_input(record) {
        return Err(ReplayError::Withheld(value));
    }
    let hook = load_hook(record, module, port, &options).await?;
    let point = HookPoint::from_name(&record.hook_point).ok_or_else(|| {
        RecordReadError::NotARecord(format!(
            "the hook point {:?} is not known",
            record.hook_point
        ))
    })?;
    let invocation = record.invocation.to_invocation();
    let (run, payload) = rerun(&hook, point, &invocation, &record.input)
        .await
        .map_err(RecordReadError::NotARecord)?;
    let output = payload.map(Output::from);
    Ok(ReplayResult {
        difference: difference(record, &run, output.as_ref()),
        run,
        output,
        withheld: record.withheld.clone(),
    })
}

/// A withheld value without which a replay makes no sense, if any.
fn withheld_input(record: &Record) -> Option<String> {
    let mut withheld = record.withheld.iter();
    withheld.find(|what| what.starts_with("input: ")).cloned()
}

/// The given module with the recorded settings.
async fn load_hook(
    record: &Record,
    path: &Path,
    port: bool,
    options: &LoadOptions,
) -> Result<Hook, ReplayError> {
    let name = &record.hook.directory;
    if record.hook.digest.is_none() && !port {
        return Err(ReplayError::Sidecar);
    }
    let module = Loader::new(options.clone()).load(path, name).await?;
    if let Some(recorded) = &record.hook.digest
        && !port
        && recorded != module.digest()
    {
        return Err(ReplayError::OtherModule {
            path: path.to_owned(),
            found: module.digest().to_owned(),
            recorded: recorded.clone(),
        });
    }
    let settings = record.settings(&options.limits)?;
    let info = HookInfo {
        hook: record.hook.hook.clone(),
        name: module.description().name.clone(),
        version: module.description().version.clone(),
        directory: name.clone(),
        file: record.hook.file.clone(),
        kind: HookKind::Wasm {
            digest: module.digest().to_owned(),
        },
        hook_points: module.description().hook_points.clone(),
        uncalled_points: record.hook.uncalled_points.clone(),
        is_final: record.hook.final_rule.is_some(),
        compile_time: None,
        ready_after: Duration::ZERO,
    };
    Ok(Hook {
        info,
        settings,
        body: Box::new(ReplayedModule {
            module,
            determinism: record.determinism(),
            pod: PodFactSource::Recorded(Arc::new(record.input.pod.clone())),
        }),
    })
}

/// A module that is called with the random numbers, the time and the pod facts of a record.
struct ReplayedModule {
    module: Module,
    determinism: Option<Determinism>,
    /// The recorded answers to questions about the pod.
    pod: PodFactSource,
}

impl HookBody for ReplayedModule {
    fn call_hook<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, HookReport> {
        self.module.call_hook(HookCall {
            determinism: self.determinism,
            pod: &self.pod,
            ..call
        })
    }

    fn has_own_deadline(&self) -> bool {
        self.module.has_own_deadline()
    }

    fn rewrites_document(&self) -> bool {
        self.module.rewrites_document()
    }
}

/// The differences between the recorded and the replayed run. Durations are not compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// The recorded and the replayed outcome with their reasons, if they differ.
    pub outcome: Option<(String, String)>,
    /// The changes from the recorded domain or device to the replayed one.
    pub domain: Vec<Change>,
    /// Whether the texts of the XML differ. They may still be equivalent.
    pub bytes: bool,
    /// The names of the cloud-init documents, and of the parameters of a migration, that differ.
    pub documents: Vec<String>,
    /// Whether the logs differ.
    pub log: bool,
}

impl Difference {
    /// Whether the two runs are identical, byte for byte.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the two runs have the same effect; logs and formatting do not count.
    #[must_use]
    pub fn is_none_in_effect(&self) -> bool {
        self.outcome.is_none() && self.domain.is_empty() && self.documents.is_empty()
    }
}

fn difference(record: &Record, run: &Run, output: Option<&Output>) -> Difference {
    let outcome_text = |outcome: &str, reason: Option<&str>| match reason {
        Some(reason) => format!("{outcome}: {reason}"),
        None => outcome.to_owned(),
    };
    let reason = match &run.outcome {
        Outcome::Ok => None,
        Outcome::Failed(error) => Some(error.to_string()),
    };
    let recorded = outcome_text(&record.outcome, record.reason.as_deref());
    let replayed = outcome_text(run.outcome.name(), reason.as_deref());
    let (none, before) = (Output::default(), record.output.as_ref());
    let (before, after) = (before.unwrap_or(&none), output.unwrap_or(&none));
    let log: Vec<LogEntry> = run.log.iter().map(LogEntry::of).collect();
    let xml = |output: &Output| {
        output
            .domain_xml
            .clone()
            .or_else(|| output.device_xml.clone())
    };
    let (xml_before, xml_after) = (xml(before), xml(after));
    Difference {
        outcome: (recorded != replayed).then_some((recorded, replayed)),
        domain: xml_changes(xml_before.as_deref(), xml_after.as_deref()),
        bytes: xml_before != xml_after,
        documents: [
            differing_names(before.documents.as_deref(), after.documents.as_deref()),
            differing_names(before.parameters.as_deref(), after.parameters.as_deref()),
        ]
        .concat(),
        log: log != record.log,
    }
}

fn xml_changes(before: Option<&str>, after: Option<&str>) -> Vec<Change> {
    let parse = |text: Option<&str>| Document::parse(text?).ok();
    match (parse(before), parse(after)) {
        (Some(before), Some(after)) => diff(&before, &after),
        // If only one of the texts is valid XML, the outcomes differ already.
        _ => Vec::new(),
    }
}

/// The names whose values differ.
fn differing_names(
    before: Option<&[(String, String)]>,
    after: Option<&[(String, String)]>,
) -> Vec<String> {
    let by_name = |list: Option<&[(String, String)]>| -> BTreeMap<String, String> {
        list.unwrap_or_default().iter().cloned().collect()
    };
    let (before, after) = (by_name(before), by_name(after));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differing = names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name));
    differing.cloned().collect()
}
