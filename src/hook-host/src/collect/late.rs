//! One look for hooks that came after the count was complete.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::scan::{self, Id};

/// Nothing watches the hooks directory after collection; the chain's first use has one more look.
pub(crate) struct Late {
    hooks_dir: PathBuf,
    known: BTreeSet<Id>,
    looked: AtomicBool,
}

impl Late {
    pub(super) fn new(hooks_dir: &Path, known: Vec<Id>) -> Self {
        let hooks_dir = hooks_dir.to_owned();
        Self {
            hooks_dir,
            known: known.into_iter().collect(),
            looked: AtomicBool::new(false),
        }
    }

    /// Logs what came later and is not used.
    pub(crate) fn look(&self) {
        if self.looked.swap(true, Ordering::Relaxed) {
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

    fn arrivals(&self) -> Vec<Id> {
        let listing = scan::scan(&self.hooks_dir).unwrap_or_default();
        let ids = listing.found.into_iter().map(|found| found.id);
        ids.filter(|id| !self.known.contains(id)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_what_came_later_is_late() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            std::fs::write(dir.path().join(name).join("m.wasm"), "").unwrap();
        }
        let known = Id {
            directory: "a".into(),
            file: "m.wasm".into(),
        };
        let late = Late::new(dir.path(), vec![known]);
        let arrivals: Vec<_> = late.arrivals().iter().map(Id::to_string).collect();
        assert_eq!(arrivals, ["b/m.wasm"]);
    }
}
