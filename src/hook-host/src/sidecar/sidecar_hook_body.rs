//! `HookBody` of gRPC sidecars.

use futures_util::future::BoxFuture;

use super::sidecar_call::{CallLimits, Sidecar, SidecarError};
use crate::hook_body::{BodyError, HookBody, HookCall, HookInput, HookOutput, HookReport};

impl HookBody for Sidecar {
    fn call_hook<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, HookReport> {
        Box::pin(async move { HookReport::result_only(self.output(&call).await) })
    }

    fn has_own_deadline(&self) -> bool {
        true
    }

    fn rewrites_document(&self) -> bool {
        true
    }
}

impl Sidecar {
    async fn output(&self, call: &HookCall<'_>) -> Result<HookOutput, BodyError> {
        let body_error = |error: SidecarError| self.body_error(&error);
        let limits = call_limits(call);
        match call.input {
            // KubeVirt's sidecar protocol does not have these hook points.
            HookInput::PreStart | HookInput::Device(_) | HookInput::Migration(_) => {
                Ok(HookOutput::Nothing)
            }
            HookInput::Shutdown => {
                self.shutdown(limits).await.map_err(body_error)?;
                Ok(HookOutput::Nothing)
            }
            HookInput::CloudInit(data) => {
                let (json, source) = (data.json(), data.no_cloud_source());
                let answer = self.pre_cloud_init_iso(limits, call.vmi, json, source);
                answer.await.map(HookOutput::CloudInit).map_err(body_error)
            }
            HookInput::Domain(xml) => {
                let answer = self.on_define_domain(limits, call.vmi, xml).await;
                HookOutput::from_domain_bytes(answer.map_err(body_error)?)
            }
        }
    }

    fn body_error(&self, error: &SidecarError) -> BodyError {
        match error {
            SidecarError::Deadline(limit) => BodyError::Deadline(*limit),
            _ => BodyError::Sidecar {
                version: self.version.name().to_owned(),
                message: error.to_string(),
            },
        }
    }
}

fn call_limits(call: &HookCall<'_>) -> CallLimits {
    let limits = call.chain_limits;
    let deadline = match call.input {
        // The launcher is about to exit, so all sidecars have only the chain's deadline.
        HookInput::Shutdown => limits.sidecar_deadline.min(limits.chain_deadline),
        _ => limits.sidecar_deadline,
    };
    CallLimits {
        deadline,
        output: limits.output,
    }
}
