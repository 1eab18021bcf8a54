//! The facts about the pod of a hook under test.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hook_host::{Description, PodAccess, PodConfig, render_downward_api};

/// The facts about the pod.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodFacts {
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) labels: BTreeMap<String, String>,
}

impl PodFacts {
    /// Writes the facts into a directory as the kubelet does.
    pub(crate) fn mount(&self, dir: &Path) -> std::io::Result<PodConfig> {
        for (file, facts) in [("annotations", &self.annotations), ("labels", &self.labels)] {
            std::fs::write(dir.join(file), render_downward_api(facts))?;
        }
        Ok(PodConfig {
            dir: Some(dir.to_owned()),
            // Nothing comes later in a test.
            wait: Duration::ZERO,
        })
    }
}

/// Facts about the pod in a directory of this call.
pub(crate) struct MountedPod {
    pub(crate) access: PodAccess,
    _dir: tempfile::TempDir,
}

impl MountedPod {
    pub(crate) fn of(pod: &PodFacts, description: &Description) -> std::io::Result<Self> {
        let dir = tempfile::tempdir()?;
        let config = pod.mount(dir.path())?;
        let wishes = description.wishes.as_ref();
        let patterns = wishes.map_or_else(Vec::new, |wishes| wishes.pod.clone());
        Ok(Self {
            access: PodAccess::new(config, patterns),
            _dir: dir,
        })
    }
}
