//! Finds hooks that appeared after the count was complete.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::list_hooks_directory::{self, HookId};

/// Nothing watches the hooks directory after collection, so the chain scans it once, at its first call.
pub(crate) struct LateArrivals {
    hooks_dir: PathBuf,
    known: BTreeSet<HookId>,
    checked: AtomicBool,
}

impl LateArrivals {
    pub(super) fn new(hooks_dir: &Path, known: Vec<HookId>) -> Self {
        let hooks_dir = hooks_dir.to_owned();
        Self {
            hooks_dir,
            known: known.into_iter().collect(),
            checked: AtomicBool::new(false),
        }
    }

    /// Logs hooks that appeared later and are not used. Later calls do nothing.
    pub(crate) fn log_once(&self) {
        if self.checked.swap(true, Ordering::Relaxed) {
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
        let listing = list_hooks_directory::scan(&self.hooks_dir).unwrap_or_default();
        let ids = listing.hooks.into_iter().map(|found| found.id);
        ids.filter(|id| !self.known.contains(id)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_unknown_hooks_are_late_arrivals() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            std::fs::write(dir.path().join(name).join("m.wasm"), "").unwrap();
        }
        let known = HookId {
            directory: "a".into(),
            file: "m.wasm".into(),
        };
        let late = LateArrivals::new(dir.path(), vec![known]);
        let arrivals: Vec<_> = late.arrivals().iter().map(HookId::to_string).collect();
        assert_eq!(arrivals, ["b/m.wasm"]);
    }
}
