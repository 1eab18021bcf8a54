//! The hook points of a module that its route does not call. A cluster reports them too late or never.

use std::path::Path;

use anyhow::anyhow;
use hook_host::HookPoint;

use super::arguments::Route;
use crate::verb_failure::Failure;

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
