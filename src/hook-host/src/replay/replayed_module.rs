//! A module that runs with the random numbers, the time and the pod facts of a record.

use futures_util::future::BoxFuture;

use crate::fixed_clock_and_random::Determinism;
use crate::hook_body::{HookBody, HookCall, HookReport};
use crate::pod_facts::PodFactSource;
use crate::wasm::Module;

/// A module that is called with the random numbers, the time and the pod facts of a record.
pub(super) struct ReplayedModule {
    pub(super) module: Module,
    pub(super) determinism: Option<Determinism>,
    /// The recorded answers to questions about the pod.
    pub(super) pod: PodFactSource,
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
