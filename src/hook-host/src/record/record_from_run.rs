//! The inputs and results of one run, and the record that is built from them.

use data_encoding::HEXLOWER;
use domain_xml::host::{Change, ChangeKind};

use super::record_json_format::{
    GrantEntry, HookEntry, HookPayload, Input, InvocationEntry, LimitsUsed, LogEntry, Output,
    Record, SealEntry, VERSION,
};
use crate::fixed_clock_and_random::Determinism;
use crate::hook::HookInfo;
use crate::pod_facts::PodFactEntry;
use crate::policy::EffectiveSettings;
use crate::sealed_changes::Seal;
use crate::{Invocation, Outcome, Run};

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
    pub(super) fn from_evidence(evidence: RunEvidence<'_>) -> Self {
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
