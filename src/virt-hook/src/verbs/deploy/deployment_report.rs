//! The report of `deploy`: manifests for kubectl, with comments.

use serde::Serialize;
use serde_json::{Map, Value};

use super::arguments::Route;
use crate::output::{Report, Style};
use crate::verbs::inspect::MinimalPolicy;
use crate::yaml_writer::{self, comment};

/// The manifests for a module on one route, the annotations of its VMs, and the policy that it needs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Deployment {
    pub(super) name: String,
    pub(super) sha256: String,
    pub(super) route: Route,
    /// The manifests for kubectl.
    pub(super) manifests: Vec<Value>,
    /// The annotations that the VM's template needs; empty for a Plugin.
    pub(super) annotations: Map<String, Value>,
    /// Whether the manifests include a VM with the annotations.
    pub(super) has_vm: bool,
    /// The module's hook points that are never called on the route.
    pub(super) uncalled_hook_points: Vec<&'static str>,
    /// The content of `allow` of the minimal operator's policy with which the module runs.
    pub(super) policy: MinimalPolicy,
    #[serde(skip)]
    pub(super) image: Option<String>,
    /// Whether a Plugin is for every VM of the cluster.
    #[serde(skip)]
    pub(super) for_all: bool,
    #[serde(skip)]
    pub(super) domain: String,
    /// Notes on hook points that are not called.
    #[serde(skip)]
    pub(super) notes: String,
}

impl Deployment {
    /// The first comment: what the cluster needs on this route.
    fn introduction(&self) -> String {
        let image = self.image.as_deref().unwrap_or_default();
        let name = &self.name;
        let line = match self.route {
            Route::Configmap => {
                "For this project's launcher, with deploy/admission applied (standing-hooks-from-config-map.yaml).".to_owned()
            }
            Route::Image => format!(
                "For this project's launcher, with deploy/admission applied. {image} has the directory {name}/."
            ),
            Route::Plugin => format!(
                "For this project's launcher, with KubeVirt's feature gate Plugins. {image} has the directory {name}/.{}",
                self.plugin_warning()
            ),
            Route::Sidecar => {
                "For KubeVirt's own launcher, with the feature gate Sidecar.".to_owned()
            }
        };
        comment(&format!(
            "Hook {name}, sha256 {}.\n{line}\n{}kubectl apply --server-side -f -\n",
            self.sha256, self.notes
        ))
    }

    /// The warning about a Plugin for all VMs, which breaks those with KubeVirt's own launcher.
    fn plugin_warning(&self) -> String {
        if !self.for_all {
            return String::new();
        }
        format!(
            " It is for every VM of the cluster: KubeVirt's own launcher, which does not run modules, waits 30 s for a \
             socket and then fails to start the VM. Until all VMs have this launcher, limit it to those that do: \
             --label {}/canary=true, or --for-namespace.",
            self.domain
        )
    }

    fn annotations_comment(&self) -> String {
        if self.has_vm || self.annotations.is_empty() {
            return String::new();
        }
        let annotations = Value::from(self.annotations.clone());
        let annotations = yaml_writer::documents(&[annotations]);
        comment(&format!(
            "Annotations of the VM's template (spec.template.metadata.annotations); --vm FILE adds them:\n{annotations}"
        ))
    }

    fn policy_comment(&self) -> String {
        let place = match self.route {
            Route::Sidecar => "The minimal policy that it needs, as in the sidecar's arguments:",
            _ => {
                "The minimal operator's policy that it needs, for /etc/virt-launcher/hook-policy.yaml of the \
                 launcher's image:"
            }
        };
        comment(&format!("{place}\n{}", self.policy.yaml()))
    }
}

impl Report for Deployment {
    fn text(&self, _: Style) -> String {
        let mut parts = vec![self.introduction()];
        if !self.manifests.is_empty() {
            parts.push(yaml_writer::documents(&self.manifests));
        }
        parts.extend([self.annotations_comment(), self.policy_comment()]);
        parts.retain(|part| !part.is_empty());
        parts.concat()
    }
}
