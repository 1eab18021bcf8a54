//! The cost of compiling a module that was loaded: measured in this load, or read from the cache.

use std::path::{Path, PathBuf};

use hook_host::wasm::{CodeOrigin, Module};

use crate::compiled_module_cache::{CompileCost, CompiledModuleCache, SmallestSidecarResult};
use crate::module_file_size::module_file_size;

/// The largest difference of size, in percent, between builds of a file whose compile costs count as equal.
const MAX_SIZE_DIFFERENCE: u64 = 10;

/// The cost of compiling a whole module. The cache keeps it beside the compiled code, so that an unchanged module is
/// not compiled again to measure it.
pub(crate) struct ModuleCompileCost {
    cache: Option<CompiledModuleCache>,
    digest: String,
    file: PathBuf,
    is_measured_in_this_run: bool,
    /// `None` if the cost is not known: the code is from a directory without costs, or only some functions were
    /// compiled.
    pub(crate) cost: Option<CompileCost>,
}

impl ModuleCompileCost {
    /// The cost of the compilation in this load, of the one whose code was loaded, or of the last full compilation of an
    /// earlier build of the module file.
    pub(crate) fn for_module(
        module: &Module,
        file: &Path,
        cache: Option<CompiledModuleCache>,
    ) -> Self {
        let digest = module.digest().to_owned();
        let module_bytes = module_file_size(file).unwrap_or_default();
        let is_comparable = |cost: &CompileCost| is_similar(cost.module_bytes, module_bytes);
        let (cost, is_measured_in_this_run) = match module.code_origin() {
            CodeOrigin::Compiled {
                took,
                peak_memory,
                reused_functions: 0,
            } => {
                let cost = CompileCost {
                    millis: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                    peak_memory: *peak_memory,
                    in_smallest_sidecar: SmallestSidecarResult::NotTried,
                    module_bytes,
                    is_of_earlier_build: false,
                };
                (Some(cost), true)
            }
            CodeOrigin::Compiled { .. } => {
                let full_build = cache.as_ref().and_then(|cache| cache.full_build_cost(file));
                let cost = full_build.filter(is_comparable).map(|cost| CompileCost {
                    is_of_earlier_build: true,
                    // Other code may need more memory, or less.
                    in_smallest_sidecar: SmallestSidecarResult::NotTried,
                    ..cost
                });
                (cost, false)
            }
            CodeOrigin::Cached | CodeOrigin::Precompiled { .. } => {
                let cost = cache.as_ref().and_then(|cache| cache.cost(&digest));
                (cost, false)
            }
        };
        let compile_cost = Self {
            cost,
            is_measured_in_this_run,
            cache,
            digest,
            file: file.to_owned(),
        };
        if let CodeOrigin::Compiled { .. } = module.code_origin() {
            compile_cost.store();
        }
        compile_cost
    }

    /// A note for reports on when the cost was measured; empty if it was measured in this run.
    pub(crate) fn measured_note(&self) -> &'static str {
        let is_of_earlier_build = |cost: &CompileCost| cost.is_of_earlier_build;
        if self.is_measured_in_this_run {
            ""
        } else if self.cost.as_ref().is_some_and(is_of_earlier_build) {
            " (measured at the last full compilation of this file)"
        } else {
            " (measured at the first compilation)"
        }
    }

    /// Adds the result of a compilation within the limits of the smallest sidecar.
    pub(crate) fn set_smallest_sidecar(&mut self, result: SmallestSidecarResult) {
        if let Some(cost) = &mut self.cost {
            cost.in_smallest_sidecar = result;
        }
        self.store();
    }

    fn store(&self) {
        if let (Some(cache), Some(cost)) = (&self.cache, &self.cost) {
            cache.store_cost(&self.digest, cost);
            cache.store_full_build_cost(&self.file, cost);
        }
    }
}

fn is_similar(first: u64, second: u64) -> bool {
    first.abs_diff(second) <= first / 100 * MAX_SIZE_DIFFERENCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_of_similar_size_are_comparable() {
        assert!(is_similar(1000, 1100) && is_similar(1000, 900));
        assert!(!is_similar(1000, 1101) && !is_similar(1000, 0));
        assert!(!is_similar(0, 1000));
    }
}
