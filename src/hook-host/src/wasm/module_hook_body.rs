//! `HookBody` of WASM modules.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::call_types::{Answer, Call, CallContext, CallError};
use super::loaded_module::Module;
use super::wit_versions::POD_INTERFACE;
use crate::cloud_init::CloudInitAnswer;
use crate::hook_body::{BodyError, HookBody, HookCall, HookInput, HookOutput, HookReport};
use crate::pod_facts::PodAccess;

impl HookBody for Module {
    fn call_hook<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, HookReport> {
        Box::pin(async move {
            if call.time_left.is_zero() {
                return HookReport::result_only(Err(BodyError::ChainDeadline));
            }
            let context = CallContext {
                invocation: call.invocation.clone(),
                config: call.settings.config.clone(),
                time_left: Some(call.time_left),
                limits: Some(call.settings.limits.clone()),
                dirs: call.settings.dirs.clone(),
                dir_roots: call.settings.dir_roots.clone(),
                determinism: call.determinism,
                // The interface is always granted; each fact needs its own grant.
                interfaces: BTreeSet::from([POD_INTERFACE.to_owned()]),
                pod: PodAccess {
                    facts: call.pod.clone(),
                    grant: Arc::clone(&call.settings.pod),
                },
            };
            let vmi = call.vmi;
            let report = match call.input {
                HookInput::PreStart => self.call(&context, &Call::PreStart { vmi }).await,
                HookInput::CloudInit(data) => {
                    let module_call = Call::PreCloudInitIso {
                        vmi,
                        data_source: data.data_source(),
                        documents: &data.documents(),
                    };
                    self.call(&context, &module_call).await
                }
                HookInput::Domain(domain_xml) => {
                    let module_call = Call::OnDefineDomain { vmi, domain_xml };
                    self.call(&context, &module_call).await
                }
                HookInput::Device(device_xml) => {
                    let module_call = Call::OnAttachDevice { vmi, device_xml };
                    self.call(&context, &module_call).await
                }
                HookInput::Migration(parameters) => {
                    let parameters = &parameters.to_texts();
                    let module_call = Call::PreMigrationSource { vmi, parameters };
                    self.call(&context, &module_call).await
                }
                HookInput::Shutdown => self.call(&context, &Call::Shutdown).await,
            };
            HookReport {
                result: match report.result {
                    Ok(answer) => Ok(answer.into()),
                    Err(error) => Err(body_error(error, &call)),
                },
                log: report.log,
                peak_memory: report.peak_memory,
                facts: report.facts,
                waited: report.waited,
            }
        })
    }

    fn has_own_deadline(&self) -> bool {
        false
    }

    fn rewrites_document(&self) -> bool {
        false
    }
}

impl From<Answer> for HookOutput {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Done => Self::Nothing,
            Answer::Documents(documents) => Self::CloudInit(CloudInitAnswer::Documents(documents)),
            Answer::DomainXml(xml) => Self::DomainXml(xml),
            Answer::DeviceXml(xml) => Self::DeviceXml(xml),
            Answer::Parameters(parameters) => Self::Parameters(parameters),
        }
    }
}

fn body_error(error: CallError, call: &HookCall<'_>) -> BodyError {
    let text = error.to_string();
    match error {
        CallError::Veto(message) => BodyError::Veto(message),
        CallError::Failed(message) => BodyError::Failed(message),
        CallError::Trap(message) => BodyError::Trap(message),
        CallError::Panic(message) => BodyError::Panic(message),
        // A limit below the hook's own deadline is the rest of the chain's deadline.
        CallError::Deadline(limit) if limit < call.settings.limits.call_deadline => {
            BodyError::ChainDeadline
        }
        CallError::Deadline(limit) => BodyError::Deadline(limit),
        CallError::Host(_) | CallError::InputTooLarge { .. } => BodyError::BadInput(text),
        CallError::OutputTooLarge { .. } | CallError::NotUtf8(_) => BodyError::BadOutput(text),
    }
}
