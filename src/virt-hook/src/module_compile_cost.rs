//! The compile cost of one loaded module, and the cache it is written to.

use std::path::{Path, PathBuf};

use hook_host::wasm::{CodeOrigin, Module};

use crate::compiled_module_cache::{CompileCost, CompiledModuleCache, SmallestSidecar};
use crate::module_files;

/// The largest difference of size, in percent, between builds of a file that cost the same.
const MAX_SIZE_DIFFERENCE: u64 = 10;

/// The cost of compiling a whole module. The cache keeps it beside the compiled code, so that an unchanged module is not
/// compiled again to measure it.
pub(crate) struct ModuleCompileCost {
    cache: Option<CompiledModuleCache>,
    digest: String,
    file: PathBuf,
    is_measured_now: bool,
    /// `None` if it is not known: the code is from a directory without costs, or only some functions were compiled.
    pub(crate) cost: Option<CompileCost>,
}

impl ModuleCompileCost {
    /// The cost of this load, of the one whose code was used, or of an earlier build of the module file.
    pub(crate) fn of(module: &Module, file: &Path, cache: Option<CompiledModuleCache>) -> Self {
        let digest = module.digest().to_owned();
        let module_bytes = module_files::size(file).unwrap_or_default();
        let is_known = |cost: &CompileCost| is_similar(cost.module_bytes, module_bytes);
        let (cost, is_measured_now) = match module.code_origin() {
            CodeOrigin::Compiled {
                took,
                peak_memory,
                reused_functions: 0,
            } => {
                let cost = CompileCost {
                    millis: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                    peak_memory: *peak_memory,
                    smallest_sidecar: SmallestSidecar::NotTried,
                    module_bytes,
                    is_of_earlier_build: false,
                };
                (Some(cost), true)
            }
            CodeOrigin::Compiled { .. } => {
                let first = cache.as_ref().and_then(|cache| cache.first_cost(file));
                let cost = first.filter(is_known).map(|cost| CompileCost {
                    is_of_earlier_build: true,
                    // Other code may need more memory, or less.
                    smallest_sidecar: SmallestSidecar::NotTried,
                    ..cost
                });
                (cost, false)
            }
            CodeOrigin::Cached | CodeOrigin::Precompiled { .. } => {
                let cost = cache.as_ref().and_then(|cache| cache.cost(&digest));
                (cost, false)
            }
        };
        let record = Self {
            cost,
            is_measured_now,
            cache,
            digest,
            file: file.to_owned(),
        };
        if let CodeOrigin::Compiled { .. } = module.code_origin() {
            record.keep();
        }
        record
    }

    /// When the cost was measured, to be appended to it; empty if it was just now.
    pub(crate) fn measured(&self) -> &'static str {
        let is_of_earlier_build = |cost: &CompileCost| cost.is_of_earlier_build;
        if self.is_measured_now {
            ""
        } else if self.cost.as_ref().is_some_and(is_of_earlier_build) {
            " (measured at the first compilation of this file)"
        } else {
            " (measured at the first compilation)"
        }
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
            cache.keep_first_cost(&self.file, cost);
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
    fn builds_of_similar_size_cost_the_same() {
        assert!(is_similar(1000, 1100) && is_similar(1000, 900));
        assert!(!is_similar(1000, 1101) && !is_similar(1000, 0));
        assert!(!is_similar(0, 1000));
    }
}
