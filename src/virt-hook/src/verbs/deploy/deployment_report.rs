//! The report of `deploy`: manifests for kubectl, with comments.

use std::path::Path;

use anyhow::anyhow;
use hook_host::HookPoint;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Route;
use crate::output::{Report, Style};
use crate::verb_failure::Failure;
use crate::verbs::inspect::MinimalPolicy;
use crate::yaml_writer;
use crate::yaml_writer::comment;

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

/// The hook points at which KubeVirt's own launcher calls a module behind `virt-hook serve`.
const SIDECAR_POINTS: [HookPoint; 4] = [
    HookPoint::PreStart,
    HookPoint::PreCloudInitIso,
    HookPoint::OnDefineDomain,
    HookPoint::Shutdown,
];

impl Route {
    /// The hook points that are called on the route, and by what. Standing and counted hooks of this launcher have all
    /// of them.
    fn called(self) -> (&'static [HookPoint], &'static str) {
        match self {
            Self::Configmap | Self::Image => (&HookPoint::ALL, "this launcher"),
            Self::Plugin => (&HookPoint::PLUGIN_MODULE_POINTS, "a Plugin"),
            Self::Sidecar => (&SIDECAR_POINTS, "KubeVirt's own launcher"),
        }
    }

    /// The consequence if no hook point of the module is called.
    fn consequence(self) -> &'static str {
        match self {
            Self::Plugin => "no VM would start",
            _ => "the sidecar would do nothing",
        }
    }

    /// The hook points that are never called; refused if those are all of them.
    pub(super) fn uncalled(
        self,
        module: &Path,
        points: &[HookPoint],
    ) -> Result<Vec<HookPoint>, Failure> {
        let (called, caller) = self.called();
        let is_called = |point: &HookPoint| called.contains(point);
        let uncalled = points.iter().copied().filter(|point| !is_called(point));
        let calls_all = called.len() == HookPoint::ALL.len();
        if calls_all || points.iter().any(is_called) {
            return Ok(uncalled.collect());
        }
        Err(Failure::refused(anyhow!(
            "{}: {caller} calls {}, and the module has {}, so {}: use --as configmap or image, with this project's \
             launcher",
            module.display(),
            names(called),
            match points {
                [] => "no hook point".to_owned(),
                points => format!("only {}", names(points)),
            },
            self.consequence()
        )))
    }

    /// Notes on hook points whose calls the author may expect in vain; empty if all are called.
    pub(super) fn notes(self, points: &[HookPoint], uncalled: &[HookPoint]) -> String {
        let mut notes = String::new();
        if !uncalled.is_empty() {
            let (_, caller) = self.called();
            notes += &format!(
                "Of the module's hook points {caller} never calls {}; --as configmap and image have all of them.\n",
                names(uncalled)
            );
        }
        if self == Self::Sidecar && points.contains(&HookPoint::PreCloudInitIso) {
            notes += "KubeVirt's own launcher calls PreCloudInitIso of one sidecar only: serve all modules that have it \
                      from one.\n";
        }
        notes
    }
}

/// The warning about a VM with other sidecars, of which some may have PreCloudInitIso, too.
pub(super) fn cloud_init_warning(
    route: Route,
    points: &[HookPoint],
    sidecars: usize,
) -> Option<String> {
    let is_shared =
        route == Route::Sidecar && sidecars > 1 && points.contains(&HookPoint::PreCloudInitIso);
    is_shared.then(|| {
        format!(
            "the VM has {sidecars} hook sidecars, and KubeVirt's own launcher calls PreCloudInitIso of one only: if \
             another has it too, one of them is never called; serve their modules from one sidecar"
        )
    })
}

fn names(points: &[HookPoint]) -> String {
    let names: Vec<_> = points.iter().map(|point| point.name()).collect();
    names.join(", ")
}
