//! The costs of compilations, which the cache stores beside the compiled modules.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

use hook_host::wasm::module_path_digest;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::CompiledModuleCache;
use super::cache_files::PARTIAL_PREFIX;

const COST_SUFFIX: &str = ".cost";
const FULL_BUILD_COST_SUFFIX: &str = ".full-build-cost";
/// Maximum size of the file of a cost.
const MAX_COST_FILE_BYTES: u64 = 4 << 10;

/// The cost of the compilation in which the code of a module was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CompileCost {
    /// Milliseconds, including the start of the compile process.
    pub(crate) millis: u64,
    /// Peak memory of the compile process in bytes.
    pub(crate) peak_memory: Option<u64>,
    /// The result of compiling the module within the limits of the smallest sidecar.
    pub(crate) in_smallest_sidecar: SmallestSidecarResult,
    /// The size of the module that was compiled.
    #[serde(default)]
    pub(crate) module_bytes: u64,
    /// Whether the cost is that of an earlier full build: this build compiled only the changed functions.
    #[serde(default)]
    pub(crate) is_of_earlier_build: bool,
}

/// The result of a compilation within the limits of the smallest sidecar.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum SmallestSidecarResult {
    /// Compiling within these limits was not tried.
    #[default]
    NotTried,
    /// The sidecar can compile the module.
    Suffices,
    /// The limit that the compilation exceeds.
    Refused(String),
}

impl CompiledModuleCache {
    /// The stored cost of compiling a module.
    pub(crate) fn cost(&self, module_digest: &str) -> Option<CompileCost> {
        self.read_cost(&format!("{module_digest}{COST_SUFFIX}"))
    }

    /// Stores the cost of compiling a module.
    pub(crate) fn store_cost(&self, module_digest: &str, cost: &CompileCost) {
        self.write_cost(&format!("{module_digest}{COST_SUFFIX}"), cost);
    }

    /// The cost of the last full build of a module file, in which every function was compiled.
    pub(crate) fn full_build_cost(&self, file: &Path) -> Option<CompileCost> {
        self.read_cost(&full_build_cost_name(file))
    }

    /// Stores the cost of a full build of a module file.
    pub(crate) fn store_full_build_cost(&self, file: &Path, cost: &CompileCost) {
        self.write_cost(&full_build_cost_name(file), cost);
    }

    fn read_cost(&self, name: &str) -> Option<CompileCost> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let path = self.dir.join(name);
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.ok()?;
        let mut text = String::new();
        (&file)
            .take(MAX_COST_FILE_BYTES)
            .read_to_string(&mut text)
            .ok()?;
        // Marks the cost as used, so that it stays as long as its module. The cost is read even if the time cannot be
        // set.
        let _ = file.set_modified(SystemTime::now());
        serde_json::from_str(&text).ok()
    }

    fn write_cost(&self, name: &str, cost: &CompileCost) {
        let store = || -> io::Result<()> {
            let mut partial = tempfile::Builder::new()
                .prefix(PARTIAL_PREFIX)
                .tempfile_in(&self.dir)?;
            partial.write_all(&serde_json::to_vec(cost)?)?;
            partial.persist(self.dir.join(name))?;
            Ok(())
        };
        if let Err(reason) = store() {
            tracing::info!(%reason, "the cost of compiling a module is not kept");
        }
    }
}

pub(super) fn full_build_cost_name(file: &Path) -> String {
    format!("{}{FULL_BUILD_COST_SUFFIX}", module_path_digest(file))
}
