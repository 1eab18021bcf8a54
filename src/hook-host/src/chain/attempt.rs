//! One hook at one hook point: called, its answer checked, the run recorded.

use std::time::{Duration, Instant};

use domain_xml::Change;

use super::check::Domain;
use super::cloud_init::CloudInit;
use super::{Body, Hook, report};
use crate::policy::Refused;
use crate::record::{Given, Recorder, Witness};
use crate::sidecar::{Bounds, Sidecar, SidecarError};
use crate::wasm::{Answer, Call, CallError, Context, Fixed, Module};
use crate::{FailurePolicy, HookError, HookPoint, Invocation, Limits, LogLine, Outcome, Run};

/// One hook point through all its hooks.
pub(super) struct Round<'a> {
    pub(super) limits: &'a Limits,
    pub(super) point: HookPoint,
    pub(super) invocation: &'a Invocation,
    pub(super) vmi: &'a str,
    pub(super) started: Instant,
    /// Sidecars have a deadline of their own, which does not count against the chain's.
    pub(super) in_sidecars: Duration,
    pub(super) runs: Vec<Run>,
    pub(super) recorder: Option<&'a Recorder>,
    /// Whether what hooks give is wanted beside what is made of it.
    pub(super) keeps_answers: bool,
}

/// What a hook is given.
#[derive(Clone, Copy)]
pub(super) enum Input<'a> {
    PreStart,
    CloudInit(&'a CloudInit),
    Domain { domain: &'a Domain, xml: &'a str },
    Shutdown,
}

impl Input<'_> {
    /// In the form in which modules are given it.
    fn given(self) -> Option<Given> {
        match self {
            Self::CloudInit(data) => Some(Given::Documents(data.documents())),
            Self::Domain { xml, .. } => Some(Given::DomainXml(xml.to_owned())),
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

/// What it made of it, checked.
pub(super) enum Output {
    Nothing,
    CloudInit(CloudInit),
    Domain { domain: Domain, xml: String },
}

/// What is made of an answer: it and what it changed, or why it cannot be used.
pub(super) type Judged = Result<(Output, Vec<Change>), HookError>;

/// A checked answer with what changed, or why there is none; and what a WASM hook cost and said.
struct Attempt {
    result: Judged,
    given: Option<Given>,
    log: Vec<LogLine>,
    peak_memory: usize,
}

impl Attempt {
    /// Of a hook that runs elsewhere, or nowhere.
    fn remote((result, given): (Judged, Option<Given>)) -> Self {
        Self {
            result,
            given,
            log: Vec::new(),
            peak_memory: 0,
        }
    }
}

impl Round<'_> {
    /// Runs a hook and keeps the record; the error stops the chain.
    pub(super) async fn step(
        &mut self,
        hook: &Hook,
        input: Input<'_>,
    ) -> Result<Output, HookError> {
        let (run, output) = self.run(hook, input).await;
        if matches!(hook.body, Body::Sidecar(_) | Body::Plugin(_)) {
            self.in_sidecars += run.duration;
        }
        let outcome = run.outcome.clone();
        self.runs.push(run);
        match (outcome, hook.settings.failure_policy) {
            (Outcome::Ok, FailurePolicy::Fail | FailurePolicy::Ignore) => Ok(output),
            (Outcome::Failed(error), FailurePolicy::Fail) => Err(error),
            // As if it had not been called.
            _ => Ok(Output::Nothing),
        }
    }

    /// Runs a hook beside others.
    pub(super) async fn alone(&self, hook: &Hook, input: Input<'_>) -> Run {
        self.run(hook, input).await.0
    }

    async fn run(&self, hook: &Hook, input: Input<'_>) -> (Run, Output) {
        let fixed = self.recorder.and_then(Recorder::fix);
        let (run, output, given) = self.observe(hook, input, fixed).await;
        if let Some(recorder) = self.recorder {
            let witness = Witness {
                hook,
                invocation: self.invocation,
                vmi: self.vmi,
                input: input.given(),
                data_source: input.data_source(),
                given,
                fixed,
                run: &run,
            };
            recorder.keep(witness).await;
        }
        report::run(self.invocation, &run);
        (run, output)
    }

    /// Runs a hook and gives what it said besides what is made of that.
    pub(super) async fn observe(
        &self,
        hook: &Hook,
        input: Input<'_>,
        fixed: Option<Fixed>,
    ) -> (Run, Output, Option<Given>) {
        let started = Instant::now();
        let attempt = match &hook.body {
            Body::Wasm(module) => self.wasm(hook, module, input, fixed).await,
            Body::Sidecar(sidecar) => Attempt::remote(self.sidecar(hook, sidecar, input).await),
            Body::Plugin(plugin) => Attempt::remote(self.plugin(hook, plugin, input).await),
            Body::Unusable(error) => Attempt::remote((Err(error.clone()), None)),
        };
        let (output, changes, outcome) = match attempt.result {
            Ok((output, changes)) => (output, changes, Outcome::Ok),
            Err(error) => (Output::Nothing, Vec::new(), Outcome::Failed(error)),
        };
        let run = Run {
            hook: hook.info.hook.clone(),
            hook_point: self.point,
            changes,
            duration: started.elapsed(),
            peak_memory: attempt.peak_memory,
            outcome,
            failure_policy: hook.settings.failure_policy,
            log: attempt.log,
        };
        (run, output, attempt.given)
    }

    async fn wasm(
        &self,
        hook: &Hook,
        module: &Module,
        input: Input<'_>,
        fixed: Option<Fixed>,
    ) -> Attempt {
        let left = self.time_left();
        if left.is_zero() {
            return Attempt {
                result: Err(self.too_late(hook)),
                given: None,
                log: Vec::new(),
                peak_memory: 0,
            };
        }
        let context = Context {
            invocation: self.invocation.clone(),
            config: hook.settings.config.clone(),
            time_left: Some(left),
            limits: Some(hook.settings.limits.clone()),
            dirs: hook.settings.dirs.clone(),
            fixed,
        };
        let documents = match input {
            Input::CloudInit(data) => data.documents(),
            _ => Vec::new(),
        };
        let vmi = self.vmi;
        let call = match input {
            Input::PreStart => Call::PreStart { vmi },
            Input::CloudInit(data) => Call::PreCloudInitIso {
                vmi,
                data_source: data.data_source(),
                documents: &documents,
            },
            Input::Domain { xml, .. } => Call::OnDefineDomain {
                vmi,
                domain_xml: xml,
            },
            Input::Shutdown => Call::Shutdown,
        };
        let called = module.call(&context, &call).await;
        let given = match &called.result {
            Ok(answer) => self.keep(|| Given::of(answer)),
            Err(_) => None,
        };
        let result = match called.result {
            Ok(answer) => self.accept(hook, input, answer),
            Err(error) => Err(self.call_error(hook, error)),
        };
        Attempt {
            result,
            given,
            log: called.log,
            peak_memory: called.peak_memory,
        }
    }

    fn accept(&self, hook: &Hook, input: Input<'_>, answer: Answer) -> Judged {
        match (input, answer) {
            (Input::CloudInit(data), Answer::Documents(documents)) => {
                let next = data.with_documents(&documents);
                self.cloud_init(hook, data, next)
            }
            (Input::Domain { domain, .. }, Answer::DomainXml(xml)) => {
                self.domain(hook, domain, xml)
            }
            _ => Ok((Output::Nothing, Vec::new())),
        }
    }

    async fn sidecar(
        &self,
        hook: &Hook,
        sidecar: &Sidecar,
        input: Input<'_>,
    ) -> (Judged, Option<Given>) {
        let failed = |error| (Err(self.sidecar_error(hook, sidecar, &error)), None);
        let nothing = || Ok((Output::Nothing, Vec::new()));
        let bounds = self.bounds(input);
        match input {
            Input::PreStart => (nothing(), None),
            Input::Shutdown => match sidecar.shutdown(bounds).await {
                Ok(()) => (nothing(), None),
                Err(error) => failed(error),
            },
            Input::CloudInit(data) => {
                let (json, source) = (data.json(), data.no_cloud_source());
                let answer = sidecar
                    .pre_cloud_init_iso(bounds, self.vmi, json, source)
                    .await;
                let answer = match answer {
                    Ok(answer) => answer,
                    Err(error) => return failed(error),
                };
                let next = data.with_answer(&answer.data, &answer.no_cloud_source);
                let given = next
                    .as_ref()
                    .ok()
                    .and_then(|next| self.keep(|| Some(Given::Documents(next.documents()))));
                (self.cloud_init(hook, data, next), given)
            }
            Input::Domain { domain, xml } => {
                match sidecar.on_define_domain(bounds, self.vmi, xml).await {
                    Ok(answer) => self.sidecars_domain(hook, domain, answer),
                    Err(error) => failed(error),
                }
            }
        }
    }

    pub(super) fn sidecars_domain(
        &self,
        hook: &Hook,
        before: &Domain,
        answer: Vec<u8>,
    ) -> (Judged, Option<Given>) {
        match String::from_utf8(answer) {
            Ok(xml) => {
                let given = self.keep(|| Some(Given::DomainXml(xml.clone())));
                (self.domain(hook, before, xml), given)
            }
            Err(error) => {
                let message = format!("the domain XML: {error}");
                (Err(self.bad_output(hook, message)), None)
            }
        }
    }

    /// What a hook gave is copied only when someone writes it down.
    fn keep(&self, given: impl FnOnce() -> Option<Given>) -> Option<Given> {
        self.keeps_answers.then(given).flatten()
    }

    fn bounds(&self, input: Input<'_>) -> Bounds {
        let deadline = match input {
            // The launcher is on its way out.
            Input::Shutdown => self.limits.sidecar_deadline.min(self.limits.chain_deadline),
            _ => self.limits.sidecar_deadline,
        };
        Bounds {
            deadline,
            output: self.limits.output,
        }
    }

    fn domain(&self, hook: &Hook, before: &Domain, xml: String) -> Judged {
        let (domain, changes) = before
            .step(&xml)
            .map_err(|message| self.bad_output(hook, message))?;
        let grant = &hook.settings.grant;
        grant
            .check(&changes, before.document(), domain.document())
            .map_err(|refused| self.denied(hook, refused))?;
        Ok((Output::Domain { domain, xml }, changes))
    }

    fn cloud_init(
        &self,
        hook: &Hook,
        before: &CloudInit,
        after: Result<CloudInit, String>,
    ) -> Judged {
        let after = after.map_err(|message| self.bad_output(hook, message))?;
        let changes = before.changes(&after);
        Ok((Output::CloudInit(after), changes))
    }

    fn time_left(&self) -> Duration {
        let spent = self.started.elapsed().saturating_sub(self.in_sidecars);
        self.limits.chain_deadline.saturating_sub(spent)
    }

    fn too_late(&self, hook: &Hook) -> HookError {
        let (hook, point) = (hook.info.hook.clone(), self.point);
        HookError::ChainDeadline {
            hook,
            point,
            limit: self.limits.chain_deadline,
        }
    }

    fn denied(&self, hook: &Hook, refused: Refused) -> HookError {
        HookError::Denied {
            hook: hook.info.hook.clone(),
            point: self.point,
            path: refused.path,
            before: refused.before,
            after: refused.after,
            remedy: refused.remedy,
        }
    }

    fn bad_output(&self, hook: &Hook, message: String) -> HookError {
        HookError::BadOutput {
            hook: hook.info.hook.clone(),
            point: self.point,
            message,
        }
    }

    fn call_error(&self, hook: &Hook, error: CallError) -> HookError {
        let text = error.to_string();
        let (name, point) = (hook.info.hook.clone(), self.point);
        match error {
            CallError::Veto(message) => HookError::Veto {
                hook: name,
                point,
                message,
            },
            CallError::Failed(message) => HookError::Failed {
                hook: name,
                point,
                message,
            },
            CallError::Trap(message) => HookError::Trap {
                hook: name,
                point,
                message,
            },
            CallError::Deadline(had) if had < hook.settings.limits.call_deadline => {
                self.too_late(hook)
            }
            CallError::Deadline(limit) => HookError::Deadline {
                hook: name,
                point,
                limit,
            },
            CallError::Host(_) | CallError::InputTooLarge { .. } => HookError::BadInput {
                hook: name,
                point,
                message: text,
            },
            CallError::OutputTooLarge { .. } => self.bad_output(hook, text),
        }
    }

    fn sidecar_error(&self, hook: &Hook, sidecar: &Sidecar, error: &SidecarError) -> HookError {
        let (hook, point) = (hook.info.hook.clone(), self.point);
        match error {
            SidecarError::Deadline(limit) => HookError::Deadline {
                hook,
                point,
                limit: *limit,
            },
            _ => HookError::Sidecar {
                hook,
                point,
                version: sidecar.version.name().to_owned(),
                message: error.to_string(),
            },
        }
    }
}
