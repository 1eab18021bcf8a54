//! Logs hooks that appear after the collection.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::hook_file::HookId;
use super::hooks_directory_listing;

/// Finds hooks that appeared after the collection. Nothing watches the hooks directory then, so the chain scans it
/// once, at its first call.
pub(crate) struct LateArrivals {
    hooks_dir: PathBuf,
    collected: BTreeSet<HookId>,
    scanned: AtomicBool,
}

impl LateArrivals {
    pub(super) fn new(hooks_dir: &Path, collected: Vec<HookId>) -> Self {
        let hooks_dir = hooks_dir.to_owned();
        Self {
            hooks_dir,
            collected: collected.into_iter().collect(),
            scanned: AtomicBool::new(false),
        }
    }

    /// Logs hooks that appeared after the collection and are never called. Further calls do nothing.
    pub(crate) fn log_once(&self) {
        if self.scanned.swap(true, Ordering::Relaxed) {
            return;
        }
        for id in self.arrivals() {
            tracing::warn!(
                hook = %id,
                hooks_dir = %self.hooks_dir.display(),
                "a hook came after all that were expected were ready; it is not used"
            );
        }
    }

    fn arrivals(&self) -> Vec<HookId> {
        let listing = hooks_directory_listing::scan(&self.hooks_dir).unwrap_or_default();
        let ids = listing.hooks.into_iter().map(|file| file.id);
        ids.filter(|id| !self.collected.contains(id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hooks_that_were_not_collected_are_late_arrivals() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            std::fs::write(dir.path().join(name).join("m.wasm"), "").unwrap();
        }
        let collected = HookId {
            directory: "a".into(),
            file: "m.wasm".into(),
        };
        let late = LateArrivals::new(dir.path(), vec![collected]);
        let arrivals: Vec<_> = late.arrivals().iter().map(HookId::to_string).collect();
        assert_eq!(arrivals, ["b/m.wasm"]);
    }
}
