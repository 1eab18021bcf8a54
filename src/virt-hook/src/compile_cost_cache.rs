//! What compiling a module cost, kept beside its compiled code: an unchanged module is not compiled again to measure it.

use hook_host::wasm::{CodeOrigin, Module};

use crate::compiled_module_cache::{CompileCost, CompiledModuleCache};

/// Where costs are kept.
pub(crate) struct CostRecord {
    cache: Option<CompiledModuleCache>,
    digest: String,
    /// `None` if the code is from a directory of which no cost is known.
    pub(crate) cost: Option<CompileCost>,
}

impl CostRecord {
    /// The cost of this load, or of the one whose code was used.
    pub(crate) fn of(module: &Module, cache: Option<CompiledModuleCache>) -> Self {
        let digest = module.digest().to_owned();
        let kept = || cache.as_ref()?.cost(&digest);
        let cost = match module.code_origin() {
            CodeOrigin::Compiled { took, peak_memory } => Some(CompileCost {
                millis: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                peak_memory: *peak_memory,
                refused_in_smallest_sidecar: None,
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
    pub(crate) fn set_refused_in_smallest_sidecar(&mut self, limit: Option<&str>) {
        if let Some(cost) = &mut self.cost {
            cost.refused_in_smallest_sidecar = Some(limit.unwrap_or_default().to_owned());
        }
        self.keep();
    }

    fn keep(&self) {
        if let (Some(cache), Some(cost)) = (&self.cache, &self.cost) {
            cache.keep_cost(&self.digest, cost);
        }
    }
}
