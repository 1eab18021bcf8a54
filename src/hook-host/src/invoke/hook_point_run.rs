//! One hook point of the chain: calls each hook, and logs, counts and records the run.

use std::time::{Duration, Instant};

use super::input_and_verified_output::{Input, Output};
use super::run_log;
use crate::fixed_clock_and_random::Determinism;
use crate::hook::Hook;
use crate::hook_body::{BodyError, HookCall};
use crate::pod_facts::{PodFactEntry, PodFactSource};
use crate::record::{HookPayload, RecordWriter, RunEvidence};
use crate::sealed_changes::{Seal, Seals};
use crate::{FailurePolicy, HookError, HookMetrics, HookPoint, Invocation, Limits, Outcome, Run};

/// Maximum time for writing records at one hook point that does not count against the chain's deadline. Without this
/// limit, virt-handler would wait too long for many hooks whose records are written to a slow file system.
const MAX_UNCHARGED_RECORD_TIME: Duration = Duration::from_secs(3);

/// Maximum chain deadline if the domain arrives by a migration: libvirt waits 30 s for its hook, and the source's
/// libvirt daemon waits meanwhile.
const MAX_ARRIVAL_DEADLINE: Duration = Duration::from_secs(15);

/// The calls of all hooks of one hook point.
pub(super) struct HookPointRun<'a> {
    pub(super) limits: &'a Limits,
    pub(super) point: HookPoint,
    invocation: Invocation,
    vmi: &'a str,
    started: Instant,
    /// The time for all calls together.
    pub(super) time_budget: Duration,
    /// The part of the budget that is used before the first call: by hooks for earlier devices of the same request and, if
    /// the request has a fixed end ([`AttachTime::until`](super::AttachTime::until)), by its other work.
    pub(super) spent: Duration,
    /// Time that does not count against the chain's deadline: calls of hooks with their own deadline, and writing
    /// records.
    pub(super) uncharged_time: Duration,
    /// How much time for writing records may still be added to `uncharged_time`.
    uncharged_record_time_left: Duration,
    pub(super) runs: Vec<Run>,
    /// What final hooks changed, which the hooks that are called now may not touch.
    pub(super) seals: Seals,
    recorder: Option<&'a RecordWriter>,
    pod: &'a PodFactSource,
    metrics: Option<&'a HookMetrics>,
    /// Whether the output of hooks before verification is kept, for a record or a replay.
    pub(super) keeps_payload: bool,
    /// Whether the domain arrives by a migration. Then only changes are accepted that libvirt accepts in such a domain.
    pub(super) arrives: bool,
}

impl<'a> HookPointRun<'a> {
    pub(super) fn new(
        limits: &'a Limits,
        point: HookPoint,
        invocation: &Invocation,
        vmi: &'a str,
        recorder: Option<&'a RecordWriter>,
        pod: &'a PodFactSource,
        metrics: Option<&'a HookMetrics>,
    ) -> Self {
        Self {
            limits,
            point,
            invocation: Invocation {
                reason: point.reason().unwrap_or(invocation.reason),
                ..invocation.clone()
            },
            vmi,
            started: Instant::now(),
            time_budget: limits.chain_deadline,
            spent: Duration::ZERO,
            uncharged_time: Duration::ZERO,
            uncharged_record_time_left: MAX_UNCHARGED_RECORD_TIME,
            runs: Vec::new(),
            seals: Seals::default(),
            recorder,
            pod,
            metrics,
            keeps_payload: recorder.is_some(),
            arrives: false,
        }
    }

    /// Marks the domain as one that arrives by a migration. Its hooks have at most 15 s, whatever the chain's deadline
    /// is, and writing records counts against the deadline.
    pub(super) fn set_arriving(&mut self) {
        self.arrives = true;
        self.time_budget = self.time_budget.min(MAX_ARRIVAL_DEADLINE);
        self.uncharged_record_time_left = Duration::ZERO;
    }

    /// Calls the next hook of the chain and keeps its run. An error stops the chain.
    pub(super) async fn call(
        &mut self,
        hook: &Hook,
        input: Input<'_>,
    ) -> Result<Output, HookError> {
        let (run, output, recording) = self.call_and_record(hook, input).await;
        let uncharged = recording.min(self.uncharged_record_time_left);
        self.uncharged_record_time_left -= uncharged;
        self.uncharged_time += uncharged;
        if hook.body.has_own_deadline() {
            self.uncharged_time += run.duration;
        }
        let outcome = run.outcome.clone();
        self.seal(hook, &run);
        self.runs.push(run);
        match (outcome, hook.settings.failure_policy) {
            (Outcome::Ok, FailurePolicy::Fail | FailurePolicy::Ignore) => Ok(output),
            (Outcome::Failed(error), FailurePolicy::Fail) => Err(error),
            // The chain continues as if the hook had not been called.
            _ => Ok(Output::Nothing),
        }
    }

    /// Seals what a final hook changed.
    fn seal(&mut self, hook: &Hook, run: &Run) {
        let Some(rule) = &hook.settings.final_rule else {
            return;
        };
        for change in &run.changes {
            self.seals.add(Seal {
                hook: hook.info.hook.clone(),
                rule: rule.clone(),
                path: change.path.clone(),
                kind: change.kind,
            });
        }
    }

    /// Calls a hook in parallel to others, outside of the order.
    pub(super) async fn call_alone(&self, hook: &Hook, input: Input<'_>) -> Run {
        self.call_and_record(hook, input).await.0
    }

    /// Calls a hook, and records, counts and logs the run. Also returns how long writing the record took.
    async fn call_and_record(&self, hook: &Hook, input: Input<'_>) -> (Run, Output, Duration) {
        let determinism = self.recorder.and_then(RecordWriter::new_determinism);
        let (run, output, payload, facts) = self.call_body(hook, input, determinism).await;
        let reads_secrets = facts.iter().any(PodFactEntry::is_withheld_secret);
        let record_start = Instant::now();
        if let Some(recorder) = self.recorder {
            let evidence = RunEvidence {
                hook: &hook.info,
                settings: &hook.settings,
                invocation: &self.invocation,
                vmi: self.vmi,
                input: input.payload(),
                sealed: self.seals.all(),
                data_source: input.data_source(),
                arrives: self.arrives,
                output: payload,
                determinism,
                facts,
                run: &run,
            };
            recorder.record(evidence).await;
        }
        let recording = record_start.elapsed();
        if let Some(metrics) = self.metrics {
            metrics.count(&hook.info, &run);
        }
        run_log::log_run(&self.invocation, &run, self.withholds_log(reads_secrets));
        (run, output, recording)
    }

    /// Whether the hook's log and panic message are withheld: they may contain cloud-init data or facts about the pod,
    /// and the recorder is not configured to keep secrets.
    fn withholds_log(&self, reads_secrets: bool) -> bool {
        (reads_secrets || self.point == HookPoint::PreCloudInitIso)
            && !self.recorder.is_some_and(RecordWriter::keeps_secrets)
    }

    /// Calls a hook and verifies its output. Also returns the output before verification, if it is kept, and the facts
    /// about the pod that the hook asked for.
    pub(super) async fn call_body(
        &self,
        hook: &Hook,
        input: Input<'_>,
        determinism: Option<Determinism>,
    ) -> (Run, Output, Option<HookPayload>, Vec<PodFactEntry>) {
        let started = Instant::now();
        let time_left = self.time_left();
        let call = HookCall {
            invocation: &self.invocation,
            vmi: self.vmi,
            input: input.for_body(),
            settings: &hook.settings,
            chain_limits: self.limits,
            time_left,
            determinism,
            pod: self.pod,
        };
        let report = hook.body.call_hook(call).await;
        let reads_secrets = report.facts.iter().any(PodFactEntry::is_withheld_secret);
        let (result, payload) = match report.result {
            Ok(output) => {
                let deadline = match hook.body.has_own_deadline() {
                    // The checks do not count against the sidecar's own deadline. They have as much time as a whole
                    // call of a module.
                    true => Instant::now() + self.limits.call_deadline,
                    false => {
                        let hook_deadline = hook.settings.limits.call_deadline + report.waited;
                        started + hook_deadline.min(time_left)
                    }
                };
                self.verify(hook, input, output, deadline).await
            }
            Err(error) if self.withholds_log(reads_secrets) => {
                (Err(self.error(hook, error.without_panic_message())), None)
            }
            Err(error) => (Err(self.error(hook, error)), None),
        };
        let result = result.and_then(|(output, changes)| {
            self.check_seals(hook, &changes)?;
            Ok((output, changes))
        });
        let (output, changes, outcome) = match result {
            Ok((output, changes)) => (output, changes, Outcome::Ok),
            Err(error) => (Output::Nothing, Vec::new(), Outcome::Failed(error)),
        };
        let run = Run {
            hook: hook.info.hook.clone(),
            identity: hook.info.identity(),
            hook_point: self.point,
            uncalled_points: hook.info.uncalled_points.clone(),
            is_final: hook.is_final(),
            changes,
            duration: started.elapsed(),
            peak_memory: report.peak_memory,
            outcome,
            failure_policy: hook.settings.failure_policy,
            log: report.log,
        };
        (run, output, payload, report.facts)
    }

    /// The time until the deadline of all calls together.
    fn time_left(&self) -> Duration {
        let spent = self.started.elapsed().saturating_sub(self.uncharged_time);
        self.time_budget.saturating_sub(self.spent + spent)
    }

    pub(super) fn error(&self, hook: &Hook, error: BodyError) -> HookError {
        error.into_hook_error(&hook.info.hook, self.point, self.time_budget)
    }
}
