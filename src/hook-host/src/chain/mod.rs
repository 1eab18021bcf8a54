//! The chain: every hook point through all hooks that want it, one after the other.
//!
//! Priority descending, then directory in natural order; WASM hooks and gRPC sidecars alike. Each
//! hook sees what the one before it made. The first that does not do its work stops the chain, and
//! nothing of the chain's work is kept. At shutdown all run in parallel and none stops another.
//! KubeVirt's Plugins come after the hooks at OnDefineDomain, and are hooks like the others there.

mod attempt;
mod check;
mod cloud_init;
mod order;
mod plugin;
mod replay;
mod report;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::collect::Late;
use crate::plugins::{Planned, PluginSidecar, Terms};
use crate::policy::{OperatorPolicy, Settings};
use crate::record::Recorder;
use crate::sidecar::Sidecar;
use crate::wasm::{Module, Subscription};
use crate::{
    CloudInitDocuments, HookError, HookPoint, Invocation, Limits, Plugins, Provenance, Run,
};
use attempt::{Input, Output, Round};
use check::Domain;
use cloud_init::CloudInit;
pub(crate) use order::natural;
pub(crate) use replay::again;

/// Collected hooks, called once per hook point and boot. Between calls nothing runs.
#[derive(Default)]
pub struct Chain {
    hooks: Vec<Hook>,
    standing: Standing,
    late: Option<Late>,
    provenance: Mutex<Provenance>,
}

/// What holds for every call.
#[derive(Default)]
pub(crate) struct Standing {
    pub(crate) limits: Limits,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) operator: Option<OperatorPolicy>,
    pub(crate) plugins_dir: PathBuf,
}

/// A hook that is ready.
pub(crate) struct Hook {
    pub(crate) info: HookInfo,
    pub(crate) settings: Settings,
    pub(crate) body: Body,
}

/// How a hook is called.
pub(crate) enum Body {
    Wasm(Module),
    Sidecar(Sidecar),
    Plugin(PluginSidecar),
    /// Not at all, for this reason.
    Unusable(HookError),
}

/// What a hook is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookKind {
    /// A WASM component.
    Wasm {
        /// The sha256 of the module in hexadecimal.
        digest: String,
    },
    /// A gRPC sidecar.
    Sidecar {
        /// The version it is spoken to in (`v1alpha3`).
        version: String,
    },
}

/// A collected hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookInfo {
    /// What it is called in runs and errors: its directory, and its file when there are several.
    pub hook: String,
    /// What it calls itself.
    pub name: String,
    /// Its own version, empty when it does not say.
    pub version: String,
    /// Its directory below the hooks directory.
    pub directory: String,
    /// Its socket or module in that directory.
    pub file: String,
    /// What it is.
    pub kind: HookKind,
    /// Where it is called.
    pub hook_points: Vec<Subscription>,
    /// How long after the start of collection it was ready.
    pub ready_after: Duration,
}

impl HookInfo {
    /// Its priority at a hook point, if it is called there.
    #[must_use]
    pub fn priority(&self, point: HookPoint) -> Option<i32> {
        self.hook_points
            .iter()
            .find(|s| s.point == point)
            .map(|s| s.priority)
    }
}

impl Chain {
    pub(crate) fn new(mut hooks: Vec<Hook>, standing: Standing, late: Option<Late>) -> Self {
        hooks.sort_by(|a, b| {
            natural(&a.info.directory, &b.info.directory)
                .then_with(|| natural(&a.info.file, &b.info.file))
        });
        Self {
            hooks,
            standing,
            late,
            provenance: Mutex::default(),
        }
    }

    /// All hooks, by directory in natural order.
    #[must_use]
    pub fn hooks(&self) -> Vec<HookInfo> {
        self.hooks.iter().map(|hook| hook.info.clone()).collect()
    }

    /// The hooks that are called at a hook point, in the order in which they are.
    #[must_use]
    pub fn order(&self, point: HookPoint) -> Vec<&str> {
        self.at(point)
            .into_iter()
            .map(|hook| hook.info.hook.as_str())
            .collect()
    }

    /// Before anything is prepared. `vmi` is the VMI as JSON. The first hook that refuses or fails
    /// stops the start.
    pub async fn pre_start(
        &self,
        invocation: &Invocation,
        vmi: &str,
    ) -> Result<Vec<Run>, HookError> {
        let mut round = self.round(HookPoint::PreStart, invocation, vmi);
        for hook in self.at(HookPoint::PreStart) {
            round.step(hook, Input::PreStart).await?;
        }
        Ok(round.runs)
    }

    /// Cloud-init data through all hooks; call it only when the VMI has any.
    pub async fn pre_cloud_init_iso(
        &self,
        invocation: &Invocation,
        vmi: &str,
        documents: CloudInitDocuments,
    ) -> Result<(CloudInitDocuments, Vec<Run>), HookError> {
        let point = HookPoint::PreCloudInitIso;
        let hooks = self.at(point);
        let Some(first) = hooks.first() else {
            return Ok((documents, Vec::new()));
        };
        let mut data =
            CloudInit::decode(&documents).map_err(|error| bad_input(first, point, error))?;
        let mut round = self.round(point, invocation, vmi);
        for hook in hooks {
            if let Output::CloudInit(next) = round.step(hook, Input::CloudInit(&data)).await? {
                data = next;
            }
        }
        Ok((data.encode(), round.runs))
    }

    /// The domain XML through all hooks, each step checked: well-formed, still a domain, and name,
    /// uuid and KubeVirt's metadata as they were.
    pub async fn on_define_domain(
        &self,
        invocation: &Invocation,
        vmi: &str,
        xml: String,
    ) -> Result<(String, Vec<Run>), HookError> {
        self.define(invocation, vmi, xml, &Plugins::default()).await
    }

    /// Why a virtual machine cannot start with these plugins, whatever their sidecars would say:
    /// the first that cannot be called and may not be ignored.
    pub fn admit(&self, vmi: &str, plugins: &Plugins) -> Result<(), HookError> {
        plugins.admit(vmi, self.terms())
    }

    /// Like [`Chain::on_define_domain`], and then through the plugins' hooks.
    pub async fn define(
        &self,
        invocation: &Invocation,
        vmi: &str,
        mut xml: String,
        plugins: &Plugins,
    ) -> Result<(String, Vec<Run>), HookError> {
        let point = HookPoint::OnDefineDomain;
        let planned = self.plan(vmi, plugins);
        let hooks: Vec<&Hook> = self.at(point).into_iter().chain(&planned).collect();
        let Some(first) = hooks.first() else {
            return Ok((xml, Vec::new()));
        };
        let mut domain = Domain::parse(&xml).map_err(|error| bad_input(first, point, error))?;
        let mut round = self.round(point, invocation, vmi);
        for hook in hooks {
            let input = Input::Domain {
                domain: &domain,
                xml: &xml,
            };
            if let Output::Domain {
                domain: next,
                xml: text,
            } = round.step(hook, input).await?
            {
                (domain, xml) = (next, text);
            }
        }
        self.remember(&round.runs);
        Ok((xml, round.runs))
    }

    /// Who did what to the domain when the chain last ran through: whom to name when libvirt
    /// refuses an element.
    #[must_use]
    pub fn provenance(&self) -> Provenance {
        self.remembered().clone()
    }

    /// The hook that last touched this place of the domain, something in it or around it.
    #[must_use]
    pub fn last_touched(&self, path: &str) -> Option<String> {
        self.remembered().last_touched(path).map(str::to_owned)
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, Provenance> {
        self.provenance
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, runs: &[Run]) {
        let provenance = Provenance::of(runs);
        for overlap in provenance.overlaps() {
            report::overlap(&overlap);
        }
        *self.remembered() = provenance;
    }

    /// All hooks in parallel, each within its deadline and none longer than the chain's. What went
    /// wrong is in the runs.
    pub async fn shutdown(&self, invocation: &Invocation) -> Vec<Run> {
        let round = self.round(HookPoint::Shutdown, invocation, "");
        let hooks = self.at(HookPoint::Shutdown);
        join_all(
            hooks
                .into_iter()
                .map(|hook| round.alone(hook, Input::Shutdown)),
        )
        .await
    }

    fn plan(&self, vmi: &str, plugins: &Plugins) -> Vec<Hook> {
        let planned = plugins.plan(vmi, self.terms()).into_iter();
        let called = planned.filter_map(|planned| match planned {
            Planned::Hook(hook) => Some(*hook),
            Planned::Skipped { hook, condition } => {
                tracing::info!(
                    hook,
                    condition,
                    "hook is not called: its condition does not hold"
                );
                None
            }
        });
        called.collect()
    }

    fn terms(&self) -> Terms<'_> {
        Terms {
            operator: self.standing.operator.as_ref(),
            limits: &self.standing.limits,
            plugins_dir: &self.standing.plugins_dir,
        }
    }

    fn at(&self, point: HookPoint) -> Vec<&Hook> {
        let rank = |hook: &Hook| hook.info.priority(point);
        let mut hooks: Vec<&Hook> = self.hooks.iter().filter(|h| rank(h).is_some()).collect();
        hooks.sort_by(|a, b| ranked(a, rank(a)).compare(&ranked(b, rank(b))));
        hooks
    }

    fn round<'a>(
        &'a self,
        point: HookPoint,
        invocation: &'a Invocation,
        vmi: &'a str,
    ) -> Round<'a> {
        if let Some(late) = &self.late {
            late.look();
        }
        Round {
            limits: &self.standing.limits,
            point,
            invocation,
            vmi,
            started: Instant::now(),
            in_sidecars: Duration::ZERO,
            recorder: self.standing.recorder.as_ref(),
            keeps_answers: self.standing.recorder.is_some(),
            runs: Vec::new(),
        }
    }
}

fn ranked(hook: &Hook, priority: Option<i32>) -> order::Rank<'_> {
    order::Rank {
        priority: priority.unwrap_or_default(),
        directory: &hook.info.directory,
        file: &hook.info.file,
    }
}

fn bad_input(hook: &Hook, point: HookPoint, message: String) -> HookError {
    HookError::BadInput {
        hook: hook.info.hook.clone(),
        point,
        message,
    }
}
