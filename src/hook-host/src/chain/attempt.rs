//! One hook at one hook point: called, its answer checked, the run recorded.

use std::time::{Duration, Instant};

use domain_xml::Change;

use super::check::Domain;
use super::cloud_init::CloudInit;
use super::{Body, Hook, report};
use crate::sidecar::{Bounds, Sidecar, SidecarError};
use crate::wasm::{Answer, Call, CallError, Context, Module};
use crate::{HookError, HookPoint, Invocation, Limits, LogLine, Outcome, Run};

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
}

/// What a hook is given.
#[derive(Clone, Copy)]
pub(super) enum Input<'a> {
    PreStart,
    CloudInit(&'a CloudInit),
    Domain { domain: &'a Domain, xml: &'a str },
    Shutdown,
}

/// What it made of it, checked.
pub(super) enum Output {
    Nothing,
    CloudInit(CloudInit),
    Domain { domain: Domain, xml: String },
}

/// A checked answer with what changed, or why there is none; and what a WASM hook cost and said.
struct Attempt {
    result: Result<(Output, Vec<Change>), HookError>,
    log: Vec<LogLine>,
    peak_memory: usize,
}

impl Round<'_> {
    /// Runs a hook and keeps the record; the error stops the chain.
    pub(super) async fn step(
        &mut self,
        hook: &Hook,
        input: Input<'_>,
    ) -> Result<Output, HookError> {
        let (run, output) = self.run(hook, input).await;
        if matches!(hook.body, Body::Sidecar(_)) {
            self.in_sidecars += run.duration;
        }
        let outcome = run.outcome.clone();
        self.runs.push(run);
        match outcome {
            Outcome::Ok => Ok(output),
            Outcome::Failed(error) => Err(error),
        }
    }

    /// Runs a hook beside others.
    pub(super) async fn alone(&self, hook: &Hook, input: Input<'_>) -> Run {
        self.run(hook, input).await.0
    }

    async fn run(&self, hook: &Hook, input: Input<'_>) -> (Run, Output) {
        let started = Instant::now();
        let attempt = match &hook.body {
            Body::Wasm(module) => self.wasm(hook, module, input).await,
            Body::Sidecar(sidecar) => {
                let result = self.sidecar(hook, sidecar, input).await;
                Attempt {
                    result,
                    log: Vec::new(),
                    peak_memory: 0,
                }
            }
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
            log: attempt.log,
        };
        report::run(self.invocation, &run);
        (run, output)
    }

    async fn wasm(&self, hook: &Hook, module: &Module, input: Input<'_>) -> Attempt {
        let left = self.time_left();
        if left.is_zero() {
            return Attempt {
                result: Err(self.too_late(hook)),
                log: Vec::new(),
                peak_memory: 0,
            };
        }
        let context = Context {
            invocation: self.invocation.clone(),
            time_left: Some(left),
            ..Context::default()
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
        let result = match called.result {
            Ok(answer) => self.accept(hook, input, answer),
            Err(error) => Err(self.call_error(hook, error)),
        };
        Attempt {
            result,
            log: called.log,
            peak_memory: called.peak_memory,
        }
    }

    fn accept(
        &self,
        hook: &Hook,
        input: Input<'_>,
        answer: Answer,
    ) -> Result<(Output, Vec<Change>), HookError> {
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
    ) -> Result<(Output, Vec<Change>), HookError> {
        let failed = |error| self.sidecar_error(hook, sidecar, &error);
        let bounds = self.bounds(input);
        match input {
            Input::PreStart => Ok((Output::Nothing, Vec::new())),
            Input::Shutdown => {
                sidecar.shutdown(bounds).await.map_err(failed)?;
                Ok((Output::Nothing, Vec::new()))
            }
            Input::CloudInit(data) => {
                let (json, source) = (data.json(), data.no_cloud_source());
                let answer = sidecar
                    .pre_cloud_init_iso(bounds, self.vmi, json, source)
                    .await;
                let answer = answer.map_err(failed)?;
                let next = data.with_answer(&answer.data, &answer.no_cloud_source);
                self.cloud_init(hook, data, next)
            }
            Input::Domain { domain, xml } => {
                let answer = sidecar.on_define_domain(bounds, self.vmi, xml).await;
                let answer = String::from_utf8(answer.map_err(failed)?)
                    .map_err(|error| self.bad_output(hook, format!("the domain XML: {error}")))?;
                self.domain(hook, domain, answer)
            }
        }
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

    fn domain(
        &self,
        hook: &Hook,
        before: &Domain,
        xml: String,
    ) -> Result<(Output, Vec<Change>), HookError> {
        let (domain, changes) = before
            .step(&xml)
            .map_err(|message| self.bad_output(hook, message))?;
        Ok((Output::Domain { domain, xml }, changes))
    }

    fn cloud_init(
        &self,
        hook: &Hook,
        before: &CloudInit,
        after: Result<CloudInit, String>,
    ) -> Result<(Output, Vec<Change>), HookError> {
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
            CallError::Deadline(had) if had < self.limits.call_deadline => self.too_late(hook),
            CallError::Deadline(limit) => HookError::Deadline {
                hook: name,
                point,
                limit,
            },
            CallError::InputTooLarge { .. } => HookError::BadInput {
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
