//! The facts about the pod of a hook under test.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hook_host::{PodConfig, render_downward_api};

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
