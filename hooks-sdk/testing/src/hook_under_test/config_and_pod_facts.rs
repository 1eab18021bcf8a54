//! What a test gives the hook: configuration, and annotations, labels and networks of the pod.

use hook_host::PodPattern;

use super::Hook;

/// The annotation of Multus.
const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
/// The annotation of KubeVirt.
const NETWORK_INFO: &str = "kubevirt.io/network-info";

impl Hook {
    /// Sets a configuration value, as in `hook.yaml`. Panics if the hook does not declare
    /// the key, since it would not get the value.
    #[must_use]
    #[track_caller]
    pub fn with_config(mut self, key: &str, value: &str) -> Hook {
        let wishes = self.description().wishes.as_ref();
        let is_declared = wishes.is_some_and(|wishes| wishes.config.iter().any(|own| own == key));
        assert!(
            is_declared,
            "the hook does not declare the configuration key {key:?}: add it with \
             Description::with_config"
        );
        self.context.config.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets an annotation of the pod. Panics if the hook declares no fact that needs it.
    #[must_use]
    #[track_caller]
    pub fn with_pod_annotation(mut self, key: &str, value: &str) -> Hook {
        let name = format!("annotations/{key}");
        self.assert_declared(&name, |wish| {
            let text = wish.as_str();
            let is_fact_of_annotation = match key {
                NETWORK_STATUS => text.starts_with("network-status/") || text == "default-network",
                NETWORK_INFO => text == "network-info",
                _ => false,
            };
            wish.matches(&name) || is_fact_of_annotation
        });
        let annotations = &mut self.pod.annotations;
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets a label of the pod. Panics if the hook does not declare it.
    #[must_use]
    #[track_caller]
    pub fn with_pod_label(mut self, key: &str, value: &str) -> Hook {
        let name = format!("labels/{key}");
        self.assert_declared(&name, |wish| wish.matches(&name));
        self.pod.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets Multus' annotation `k8s.v1.cni.cncf.io/network-status`, a JSON list. Panics if the hook declares no
    /// network.
    #[must_use]
    #[track_caller]
    pub fn with_network_status(self, json: &str) -> Hook {
        self.with_pod_annotation(NETWORK_STATUS, json)
    }

    #[track_caller]
    fn assert_declared(&self, name: &str, covers: impl Fn(&PodPattern) -> bool) {
        let wishes = self.description().wishes.as_ref();
        let is_declared = wishes.is_some_and(|wishes| wishes.pod.iter().any(covers));
        assert!(
            is_declared,
            "the hook does not declare {name:?}: add it with Description::with_pod_facts"
        );
    }
}
