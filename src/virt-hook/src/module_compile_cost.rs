//! The compile cost of one loaded module, and the cache it is written to.

use hook_host::wasm::{CodeOrigin, Module};

use crate::compiled_module_cache::{CompileCost, CompiledModuleCache, SmallestSidecar};

/// The compile cost of a module. The cache keeps it beside the compiled code, so that an unchanged module is not compiled
/// again to measure it.
pub(crate) struct ModuleCompileCost {
    cache: Option<CompiledModuleCache>,
    digest: String,
    /// `None` if the code is from a directory of which no cost is known.
    pub(crate) cost: Option<CompileCost>,
}

impl ModuleCompileCost {
    /// The cost of this load, or of the one whose code was used.
    pub(crate) fn of(module: &Module, cache: Option<CompiledModuleCache>) -> Self {
        let digest = module.digest().to_owned();
        let kept = || cache.as_ref()?.cost(&digest);
        let cost = match module.code_origin() {
            CodeOrigin::Compiled { took, peak_memory } => Some(CompileCost {
                millis: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                peak_memory: *peak_memory,
                smallest_sidecar: SmallestSidecar::NotTried,
            }),
            CodeOrigin::Cached | CodeOrigin::Precompiled { .. } => kept(),
        };
        let record = Self {
            cost,
            cache,
            digest,
        };
        record.keep();
        record
    }

    /// Adds the result of a compilation within the limits of the smallest sidecar.
    pub(crate) fn set_smallest_sidecar(&mut self, result: SmallestSidecar) {
        if let Some(cost) = &mut self.cost {
            cost.smallest_sidecar = result;
        }
        self.keep();
    }

    fn keep(&self) {
        if let (Some(cache), Some(cost)) = (&self.cache, &self.cost) {
            cache.keep_cost(&self.digest, cost);
        }
    }
}
