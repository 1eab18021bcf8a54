//! A call of the built module under wasmtime, with the pod's facts in files.

use std::collections::BTreeSet;
use std::time::Duration;

use hook_host::wasm::{Answer, Call, CallContext, CallError, Module};

use crate::call_result::{CallResult, Refusal};
use crate::current_thread_runtime::block_on;
use crate::error::Error;
use crate::pod_facts::{MountedPod, PodFacts};

/// Runs the module with the pod's facts in files, as the kubelet writes them.
pub(super) fn call(
    module: &Module,
    context: &CallContext,
    pod: &PodFacts,
    call: &Call<'_>,
) -> CallResult<Answer> {
    let mounted = match MountedPod::of(pod, module.description()) {
        Ok(mounted) => mounted,
        Err(error) => {
            return CallResult {
                result: Err(Refusal::Failure(error.to_string())),
                log: Vec::new(),
                duration: Duration::ZERO,
                peak_memory: 0,
            };
        }
    };
    let context = CallContext {
        interfaces: BTreeSet::from(["virt-hook:hooks/pod".to_owned()]),
        pod: mounted.access.clone(),
        ..context.clone()
    };
    match block_on(module.call(&context, call)) {
        Ok(called) => CallResult {
            result: called.result.map_err(Refusal::from),
            log: called.log,
            duration: called.duration,
            peak_memory: called.peak_memory,
        },
        Err(error) => CallResult {
            result: Err(Refusal::Failure(Error::Runtime(error).to_string())),
            log: Vec::new(),
            duration: Duration::ZERO,
            peak_memory: 0,
        },
    }
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Refusal {
        match error {
            CallError::Veto(text) => Refusal::Veto(text),
            other => Refusal::Failure(other.to_string()),
        }
    }
}
