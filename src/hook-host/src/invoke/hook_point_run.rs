//! One hook point: calls each hook, verifies its output, logs and records the run.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain_xml::{Budget, Change};

use super::verify_device::AttachedDevice;
use super::verify_domain::{Domain, Rejection};
use super::{run_log, work_within_budget};
use crate::cloud_init::{CloudInit, CloudInitAnswer};
use crate::fixed_clock_and_random::Determinism;
use crate::hook::Hook;
use crate::hook_body::{BodyError, HookCall, HookInput, HookOutput};
use crate::pod_facts::{PodFactEntry, PodFactSource};
use crate::policy::{GrantRefusal, NotGranted};
use crate::printable::{MAX_MESSAGE, printable};
use crate::record::{self, HookPayload, RecordWriter, RunEvidence};
use crate::{
    FailurePolicy, HookError, HookMetrics, HookPoint, Invocation, Limits, MigrationParameters,
    Outcome, Run,
};

/// How long records may take at a hook point without counting against the chain's deadline: with many hooks on a slow file
/// system, virt-handler would wait too long.
const EXCLUDED_RECORDING: Duration = Duration::from_secs(3);

/// The longest chain deadline when a domain arrives by a migration: libvirt waits 30 s for its hook, and the source's
/// daemon waits meanwhile.
const MAX_ARRIVAL: Duration = Duration::from_secs(15);

/// The most bytes that a module adds to a document besides its changes.
const MAX_PADDING: usize = 64 << 10;

/// One hook point for all its hooks.
pub(super) struct HookPointRun<'a> {
    limits: &'a Limits,
    point: HookPoint,
    invocation: Invocation,
    vmi: &'a str,
    started: Instant,
    /// The deadline of all calls together.
    pub(super) deadline: Duration,
    /// The part of the deadline that calls before this hook point took.
    pub(super) spent: Duration,
    /// Time that does not count against the chain's deadline: in hooks with deadlines of their own, and to write records.
    pub(super) excluded: Duration,
    /// The part of `excluded` that records took.
    recording: Duration,
    pub(super) runs: Vec<Run>,
    recorder: Option<&'a RecordWriter>,
    pod: &'a PodFactSource,
    metrics: Option<&'a HookMetrics>,
    /// Whether the unverified output of hooks is kept, for a record or a replay.
    keeps_payload: bool,
    /// The domain arrives by a migration: only changes are accepted that libvirt accepts then.
    arrives: bool,
}

/// The input of a hook, with the parsed domain that its output is compared with.
#[derive(Clone, Copy)]
pub(super) enum Input<'a> {
    PreStart,
    CloudInit(&'a CloudInit),
    Domain {
        domain: &'a Arc<Domain>,
        xml: &'a str,
    },
    Device {
        device: &'a Arc<AttachedDevice>,
        xml: &'a str,
    },
    Migration(&'a MigrationParameters),
    Shutdown,
}

/// The verified output of a hook.
pub(super) enum Output {
    Nothing,
    CloudInit(CloudInit),
    Domain {
        domain: Arc<Domain>,
        xml: String,
    },
    Device {
        device: Arc<AttachedDevice>,
        xml: String,
    },
    Migration(MigrationParameters),
}

/// The verified output of a hook with its changes.
type CallResult = Result<(Output, Vec<Change>), HookError>;

/// Runs a hook once on recorded input. The error names the part of the input that is invalid.
pub(crate) async fn rerun(
    hook: &Hook,
    point: HookPoint,
    invocation: &Invocation,
    input: &record::Input,
) -> Result<(Run, Option<HookPayload>), String> {
    let limits = &hook.settings.limits;
    // The replayed module answers from its record.
    let none = PodFactSource::None;
    let mut once = HookPointRun::new(limits, point, invocation, &input.vmi, None, &none, None);
    once.keeps_payload = true;
    if input.arrives {
        once.arrive();
    }
    let (run, _, payload, _) = match point {
        HookPoint::PreStart => once.call_body(hook, Input::PreStart, None).await,
        HookPoint::Shutdown => once.call_body(hook, Input::Shutdown, None).await,
        HookPoint::PreCloudInitIso => {
            let documents = input.documents.as_deref().unwrap_or_default();
            let source = input.data_source.as_deref().unwrap_or("noCloud");
            let data = CloudInit::from_documents(source, documents)?;
            once.call_body(hook, Input::CloudInit(&data), None).await
        }
        HookPoint::OnDefineDomain => {
            let xml = input.domain_xml.as_deref().ok_or("it has no domain XML")?;
            let domain = Arc::new(Domain::parse(xml)?);
            let input = Input::Domain {
                domain: &domain,
                xml,
            };
            once.call_body(hook, input, None).await
        }
        HookPoint::PreMigrationSource => {
            let texts = input.parameters.as_deref().unwrap_or_default();
            let parameters =
                MigrationParameters::recorded(texts).map_err(|error| error.to_string())?;
            once.call_body(hook, Input::Migration(&parameters), None)
                .await
        }
        HookPoint::OnAttachDevice => {
            let xml = input.device_xml.as_deref().ok_or("it has no device XML")?;
            let device = AttachedDevice::parse(xml).map_err(|error| error.to_string())?;
            let device = Arc::new(device);
            let input = Input::Device {
                device: &device,
                xml,
            };
            once.call_body(hook, input, None).await
        }
    };
    Ok((run, payload))
}

impl<'a> Input<'a> {
    fn for_body(self) -> HookInput<'a> {
        match self {
            Self::PreStart => HookInput::PreStart,
            Self::CloudInit(data) => HookInput::CloudInit(data),
            Self::Domain { xml, .. } => HookInput::Domain(xml),
            Self::Device { xml, .. } => HookInput::Device(xml),
            Self::Migration(parameters) => HookInput::Migration(parameters),
            Self::Shutdown => HookInput::Shutdown,
        }
    }

    /// The input in the form that modules get.
    fn payload(self) -> Option<HookPayload> {
        match self {
            Self::CloudInit(data) => Some(HookPayload::Documents(data.documents())),
            Self::Domain { xml, .. } => Some(HookPayload::DomainXml(xml.to_owned())),
            Self::Device { xml, .. } => Some(HookPayload::DeviceXml(xml.to_owned())),
            Self::Migration(parameters) => Some(HookPayload::Parameters(parameters.to_texts())),
            Self::PreStart | Self::Shutdown => None,
        }
    }

    fn data_source(self) -> Option<String> {
        match self {
            Self::CloudInit(data) => Some(data.data_source().to_owned()),
            _ => None,
        }
    }
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
            deadline: limits.chain_deadline,
            spent: Duration::ZERO,
            excluded: Duration::ZERO,
            recording: Duration::ZERO,
            runs: Vec::new(),
            recorder,
            pod,
            metrics,
            keeps_payload: recorder.is_some(),
            arrives: false,
        }
    }

    /// The domain arrives by a migration: its hooks have less time, whatever the chain's deadline is, and records are
    /// written within it.
    pub(super) fn arrive(&mut self) {
        self.arrives = true;
        self.deadline = self.deadline.min(MAX_ARRIVAL);
        self.recording = EXCLUDED_RECORDING;
    }

    /// Calls a hook in order and keeps its run. An error stops the chain.
    pub(super) async fn call(
        &mut self,
        hook: &Hook,
        input: Input<'_>,
    ) -> Result<Output, HookError> {
        let (run, output, recording) = self.call_and_record(hook, input).await;
        let recording = recording.min(EXCLUDED_RECORDING.saturating_sub(self.recording));
        self.recording += recording;
        self.excluded += recording;
        if hook.body.has_own_deadline() {
            self.excluded += run.duration;
        }
        let outcome = run.outcome.clone();
        self.runs.push(run);
        match (outcome, hook.settings.failure_policy) {
            (Outcome::Ok, FailurePolicy::Fail | FailurePolicy::Ignore) => Ok(output),
            (Outcome::Failed(error), FailurePolicy::Fail) => Err(error),
            // As if the hook had not been called.
            _ => Ok(Output::Nothing),
        }
    }

    /// Calls a hook beside others, outside of the order.
    pub(super) async fn call_alone(&self, hook: &Hook, input: Input<'_>) -> Run {
        self.call_and_record(hook, input).await.0
    }

    /// Also returns how long writing the record took.
    async fn call_and_record(&self, hook: &Hook, input: Input<'_>) -> (Run, Output, Duration) {
        let determinism = self.recorder.and_then(RecordWriter::new_determinism);
        let (run, output, payload, facts) = self.call_body(hook, input, determinism).await;
        let reads_secrets = facts.iter().any(PodFactEntry::is_withheld_secret);
        let called = Instant::now();
        if let Some(recorder) = self.recorder {
            let evidence = RunEvidence {
                hook: &hook.info,
                settings: &hook.settings,
                invocation: &self.invocation,
                vmi: self.vmi,
                input: input.payload(),
                data_source: input.data_source(),
                arrives: self.arrives,
                output: payload,
                determinism,
                facts,
                run: &run,
            };
            recorder.record(evidence).await;
        }
        let recording = called.elapsed();
        if let Some(metrics) = self.metrics {
            metrics.count(&hook.info, &run);
        }
        run_log::run(&self.invocation, &run, self.withholds(reads_secrets));
        (run, output, recording)
    }

    /// Whether what the hook says may contain cloud-init data or annotations, which are kept on request only.
    fn withholds(&self, reads_secrets: bool) -> bool {
        (reads_secrets || self.point == HookPoint::PreCloudInitIso)
            && !self.recorder.is_some_and(RecordWriter::keeps_secrets)
    }

    /// Calls a hook and verifies its output. Also returns the unverified output, if it is kept, and the facts about the
    /// pod that the hook asked for.
    async fn call_body(
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
                    true => Instant::now() + self.limits.call_deadline,
                    false => {
                        let own = hook.settings.limits.call_deadline + report.waited;
                        started + own.min(time_left)
                    }
                };
                self.verify(hook, input, output, deadline).await
            }
            Err(error) if self.withholds(reads_secrets) => {
                (Err(self.error(hook, error.withheld())), None)
            }
            Err(error) => (Err(self.error(hook, error)), None),
        };
        let (output, changes, outcome) = match result {
            Ok((output, changes)) => (output, changes, Outcome::Ok),
            Err(error) => (Output::Nothing, Vec::new(), Outcome::Failed(error)),
        };
        let run = Run {
            hook: hook.info.hook.clone(),
            identity: hook.info.identity(),
            hook_point: self.point,
            changes,
            duration: started.elapsed(),
            peak_memory: report.peak_memory,
            outcome,
            failure_policy: hook.settings.failure_policy,
            log: report.log,
        };
        (run, output, payload, report.facts)
    }

    /// Verifies an output. A call with a deadline of its own, which its checks do not count against, leaves
    /// them as much time as a module's whole call has.
    async fn verify(
        &self,
        hook: &Hook,
        input: Input<'_>,
        output: HookOutput,
        deadline: Instant,
    ) -> (CallResult, Option<HookPayload>) {
        match (input, output) {
            (Input::CloudInit(before), HookOutput::CloudInit(answer)) => {
                self.verify_cloud_init(hook, before, answer, deadline).await
            }
            (
                Input::Domain {
                    domain,
                    xml: before,
                },
                HookOutput::DomainXml(xml),
            ) => {
                let payload = self.keep(|| HookPayload::DomainXml(xml.clone()));
                let added = xml.len().saturating_sub(before.len());
                let verified = self.verify_domain(hook, domain, xml, deadline).await;
                (self.without_padding(hook, added, verified), payload)
            }
            (
                Input::Device {
                    device,
                    xml: before,
                },
                HookOutput::DeviceXml(xml),
            ) => {
                let payload = self.keep(|| HookPayload::DeviceXml(xml.clone()));
                let added = xml.len().saturating_sub(before.len());
                let verified = self.verify_device(hook, device, xml, deadline).await;
                (self.without_padding(hook, added, verified), payload)
            }
            (Input::Migration(before), HookOutput::Parameters(texts)) => {
                let payload = self.keep(|| HookPayload::Parameters(texts.clone()));
                (self.verify_migration(hook, before, &texts), payload)
            }
            _ => (Ok((Output::Nothing, Vec::new())), None),
        }
    }

    async fn verify_cloud_init(
        &self,
        hook: &Hook,
        before: &CloudInit,
        answer: CloudInitAnswer,
        deadline: Instant,
    ) -> (CallResult, Option<HookPayload>) {
        let answer = Arc::new(answer);
        let work = {
            let (before, answer) = (before.clone(), Arc::clone(&answer));
            move |budget: &Rc<Budget<'static>>| before.apply(&answer, budget)
        };
        let applied = work_within_budget::run(deadline, answer.len(), work).await;
        let applied = applied.map_err(|unfinished| unfinished.to_string());
        let applied = applied.and_then(|applied| applied);
        let documents = || match (Arc::unwrap_or_clone(answer), &applied) {
            (CloudInitAnswer::Documents(documents), _) => Some(documents),
            (CloudInitAnswer::Json { .. }, Ok((after, _))) => Some(after.documents()),
            (CloudInitAnswer::Json { .. }, Err(_)) => None,
        };
        let payload = match self.keeps_payload {
            true => documents().map(HookPayload::Documents),
            false => None,
        };
        let result = match applied {
            Ok((after, changes)) => Ok((Output::CloudInit(after), changes)),
            Err(message) => Err(self.bad_output(hook, message)),
        };
        (result, payload)
    }

    async fn verify_domain(
        &self,
        hook: &Hook,
        before: &Arc<Domain>,
        xml: String,
        deadline: Instant,
    ) -> CallResult {
        let (before, grant) = (Arc::clone(before), hook.settings.grant.clone());
        let arrives = self.arrives;
        let check = move |xml: &str, budget: &Rc<Budget<'static>>| {
            before.verify(xml, &grant, arrives, budget)
        };
        let (domain, xml, changes) = self.verify_xml(hook, xml, deadline, check).await?;
        Ok((Output::Domain { domain, xml }, changes))
    }

    async fn verify_device(
        &self,
        hook: &Hook,
        before: &Arc<AttachedDevice>,
        xml: String,
        deadline: Instant,
    ) -> CallResult {
        let (before, grant) = (Arc::clone(before), hook.settings.grant.clone());
        let check =
            move |xml: &str, budget: &Rc<Budget<'static>>| before.verify(xml, &grant, budget);
        let (device, xml, changes) = self.verify_xml(hook, xml, deadline, check).await?;
        Ok((Output::Device { device, xml }, changes))
    }

    /// Parses and checks XML within the host's budget: what it describes, the text, and the changes.
    async fn verify_xml<T: Send + 'static>(
        &self,
        hook: &Hook,
        xml: String,
        deadline: Instant,
        check: impl Fn(&str, &Rc<Budget<'static>>) -> Result<(T, Vec<Change>), Rejection>
        + Send
        + 'static,
    ) -> Result<(Arc<T>, String, Vec<Change>), HookError> {
        let xml = Arc::new(xml);
        let work = {
            let xml = Arc::clone(&xml);
            move |budget: &Rc<Budget<'static>>| check(&xml, budget)
        };
        let verified = work_within_budget::run(deadline, xml.len(), work).await;
        let (parsed, changes) = self.accepted(hook, verified)?;
        Ok((Arc::new(parsed), Arc::unwrap_or_clone(xml), changes))
    }

    /// What a module adds besides its changes, such as comments, is not passed on without a change, and is limited with
    /// one: no grant covers it, and the next hook would exceed its limits with it. A sidecar, which marshals the whole document,
    /// may add what it likes.
    fn without_padding(&self, hook: &Hook, added: usize, verified: CallResult) -> CallResult {
        let (output, changes) = verified?;
        if hook.body.rewrites_document() {
            return Ok((output, changes));
        }
        if changes.is_empty() {
            return Ok((Output::Nothing, changes));
        }
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let changed: usize = changes.iter().map(|change| text(&change.after)).sum();
        // Layout and escapes may double the text of the changes.
        if added > MAX_PADDING + 2 * changed {
            let message = format!(
                "{added} bytes more than its input, of which {changed} are changes: a module may add {MAX_PADDING} bytes \
                 besides its changes, such as comments and indentation"
            );
            return Err(self.bad_output(hook, message));
        }
        Ok((output, changes))
    }

    fn verify_migration(
        &self,
        hook: &Hook,
        before: &MigrationParameters,
        texts: &[(String, String)],
    ) -> CallResult {
        let after = before.with_texts(texts);
        let after = after.map_err(|error| self.bad_output(hook, error.to_string()))?;
        let granted = &hook.settings.migration;
        let differences = before.differences(&after);
        let refused = differences
            .into_iter()
            .find(|(one, ..)| !granted.contains(one));
        if let Some((parameter, before, after)) = refused {
            return Err(self.denied(
                hook,
                GrantRefusal {
                    path: format!("the migration's {parameter}"),
                    before: Some(before),
                    after: Some(after),
                    remedy: format!(
                        "the module does not declare it: add {parameter:?} to wishes.migration in its description",
                        parameter = parameter.name()
                    ),
                },
            ));
        }
        let changes = before.changes(&after);
        Ok((Output::Migration(after), changes))
    }

    /// The result of a completed check of XML.
    fn accepted<T>(
        &self,
        hook: &Hook,
        verified: Result<Result<T, Rejection>, work_within_budget::BudgetError>,
    ) -> Result<T, HookError> {
        let unchecked = |unfinished: work_within_budget::BudgetError| {
            self.bad_output(hook, unfinished.to_string())
        };
        match verified.map_err(unchecked)? {
            Ok(verified) => Ok(verified),
            Err(Rejection::Invalid(message)) => Err(self.bad_output(hook, message)),
            Err(Rejection::NotGranted(NotGranted::Refused(refused))) => {
                Err(self.denied(hook, refused))
            }
            Err(Rejection::NotGranted(NotGranted::CheckBudgetExhausted)) => {
                Err(unchecked(work_within_budget::BudgetError::Steps))
            }
        }
    }

    /// The output is copied only if a record or a replay needs it.
    fn keep(&self, payload: impl FnOnce() -> HookPayload) -> Option<HookPayload> {
        self.keeps_payload.then(payload)
    }

    fn time_left(&self) -> Duration {
        let spent = self.started.elapsed().saturating_sub(self.excluded);
        self.deadline.saturating_sub(self.spent + spent)
    }

    fn error(&self, hook: &Hook, error: BodyError) -> HookError {
        error.at(&hook.info.hook, self.point, self.deadline)
    }

    fn bad_output(&self, hook: &Hook, message: String) -> HookError {
        self.error(hook, BodyError::BadOutput(message))
    }

    fn denied(&self, hook: &Hook, refused: GrantRefusal) -> HookError {
        HookError::Denied {
            hook: hook.info.hook.clone(),
            point: self.point,
            path: printable(&refused.path, MAX_MESSAGE),
            before: refused.before,
            after: refused.after,
            remedy: printable(&refused.remedy, MAX_MESSAGE),
        }
    }
}
