//! The chain: calls all hooks of a hook point, one after the other.
//!
//! Hooks are ordered by descending priority, then by directory in natural order, whatever their
//! kind. Each hook gets the output of the one before. The first veto or failure stops the chain, and
//! no output of the hook point is used. At shutdown all hooks run in parallel and none stops another.
//! KubeVirt's Plugins come after the hooks at OnDefineDomain, and are hooks like the others there.

mod hook_order;
mod hook_point_run;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod record_write_deadline_tests;
mod run_attach_hooks;
mod run_log;
mod verify_device;
mod verify_domain;
mod work_within_budget;

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain_xml::{Budget, Document};
use futures_util::future::join_all;

use crate::cloud_init::CloudInit;
use crate::hook::{Hook, HookInfo};
use crate::kubevirt_plugins::{LoadModule, PlanContext, PlanEntry};
use crate::pod_facts::PodFactSource;
use crate::policy::OperatorPolicy;
use crate::record::RecordWriter;
use crate::{
    CloudInitDocuments, HookError, HookMetrics, HookPoint, Invocation, Limits, MigrationParameters,
    Plugins, Provenance, Run,
};
use hook_order::{Rank, natural};
pub(crate) use hook_point_run::rerun;
use hook_point_run::{HookPointRun, Input, Output};
pub use run_attach_hooks::AttachTime;
pub use verify_device::{AttachedDevice, DeviceError};
use verify_domain::Domain;

/// Collected hooks. Between calls no task or thread runs.
#[derive(Default)]
pub struct Chain {
    hooks: Vec<Hook>,
    config: ChainConfig,
    before_call: Option<BeforeCall>,
    provenance: Mutex<Provenance>,
    metrics: Arc<HookMetrics>,
}

/// Configuration that is the same for every call.
#[derive(Default)]
pub(crate) struct ChainConfig {
    pub(crate) limits: Limits,
    pub(crate) recorder: Option<RecordWriter>,
    pub(crate) operator: Option<OperatorPolicy>,
    pub(crate) plugins_dir: PathBuf,
    pub(crate) plugin_modules: Option<Box<dyn LoadModule>>,
    pub(crate) pod: PodFactSource,
}

/// Runs before the hooks of each hook point.
pub(crate) type BeforeCall = Box<dyn Fn() + Send + Sync>;

impl Chain {
    pub(crate) fn new(
        mut hooks: Vec<Hook>,
        config: ChainConfig,
        before_call: Option<BeforeCall>,
    ) -> Self {
        hooks.sort_by(|a, b| {
            natural(&a.info.directory, &b.info.directory)
                .then_with(|| natural(&a.info.file, &b.info.file))
        });
        let metrics = Arc::<HookMetrics>::default();
        hooks.iter().for_each(|hook| metrics.add(&hook.info));
        Self {
            hooks,
            config,
            before_call,
            provenance: Mutex::default(),
            metrics,
        }
    }

    /// All hooks, by directory in natural order.
    #[must_use]
    pub fn hooks(&self) -> Vec<HookInfo> {
        self.hooks.iter().map(|hook| hook.info.clone()).collect()
    }

    /// Whether a run was not recorded, for instance because the directory's file system did not answer in time.
    pub fn lacks_record(&self) -> bool {
        let recorder = self.config.recorder.as_ref();
        recorder.is_some_and(RecordWriter::lacks_run)
    }

    /// Counts of the hooks' calls since the collection.
    #[must_use]
    pub fn metrics(&self) -> &Arc<HookMetrics> {
        &self.metrics
    }

    /// Whether the operator wants a Kubernetes event for each hook that was applied.
    #[must_use]
    pub fn publishes_applied_events(&self) -> bool {
        let operator = self.config.operator.as_ref();
        operator.is_none_or(OperatorPolicy::publishes_applied_events)
    }

    /// The hooks that are called at a hook point, in order.
    #[must_use]
    pub fn order(&self, point: HookPoint) -> Vec<&str> {
        self.subscribed(point)
            .into_iter()
            .map(|hook| hook.info.hook.as_str())
            .collect()
    }

    /// Facts about the pod that hooks declare and this host cannot see, whatever the pod has: a line per hook and reason.
    #[must_use]
    pub fn unseen_facts(&self) -> Vec<String> {
        let PodFactSource::Files(files) = &self.config.pod else {
            return Vec::new();
        };
        let of_hook = |hook: &Hook| {
            let unseen = files.all_unseen(hook.settings.pod.wishes());
            let lines = unseen.into_iter().map(|(reason, facts)| {
                let facts: Vec<_> = facts.into_iter().map(ToString::to_string).collect();
                format!("{} wants {}: {reason}", hook.info.hook, facts.join(", "))
            });
            lines.collect::<Vec<_>>()
        };
        self.hooks.iter().flat_map(of_hook).collect()
    }

    /// Calls PreStart hooks, before anything is prepared. `vmi` is the VMI as JSON. The first veto
    /// or failure stops the start.
    pub async fn pre_start(
        &self,
        invocation: &Invocation,
        vmi: &str,
    ) -> Result<Vec<Run>, HookError> {
        let mut run = self.begin(HookPoint::PreStart, invocation, vmi);
        for hook in self.subscribed(HookPoint::PreStart) {
            run.call(hook, Input::PreStart).await?;
        }
        Ok(run.runs)
    }

    /// Passes cloud-init data through all hooks. Call it only if the VMI has any.
    pub async fn pre_cloud_init_iso(
        &self,
        invocation: &Invocation,
        vmi: &str,
        documents: CloudInitDocuments,
    ) -> Result<(CloudInitDocuments, Vec<Run>), HookError> {
        let point = HookPoint::PreCloudInitIso;
        let hooks = self.subscribed(point);
        let Some(first) = hooks.first() else {
            return Ok((documents, Vec::new()));
        };
        let time = self.config.limits.call_deadline;
        let size = documents.cloud_init_data_json.len();
        let decoded = work_within_budget::run(Instant::now() + time, size, move |_| {
            CloudInit::decode(&documents)
        });
        let decoded = decoded.await.map_err(|unfinished| unfinished.to_string());
        let data = decoded.and_then(|decoded| decoded);
        let mut data = data.map_err(|error| bad_input(first, point, error))?;
        let mut run = self.begin(point, invocation, vmi);
        for hook in hooks {
            if let Output::CloudInit(next) = run.call(hook, Input::CloudInit(&data)).await? {
                data = next;
            }
        }
        Ok((data.encode(), run.runs))
    }

    /// Passes the domain XML through all hooks. After each hook it must be well-formed, a domain,
    /// and have the same name, uuid and KubeVirt metadata.
    pub async fn on_define_domain(
        &self,
        invocation: &Invocation,
        vmi: &str,
        xml: String,
    ) -> Result<(String, Vec<Run>), HookError> {
        self.define(invocation, vmi, xml, &Plugins::default()).await
    }

    /// Like [`Chain::on_define_domain`]; `observe` sees the domain before the first hook, also if there is none. XML that is
    /// no domain is not observed.
    pub(crate) async fn on_observed_domain(
        &self,
        invocation: &Invocation,
        vmi: &str,
        mut xml: String,
        observe: impl FnOnce(&Document) + Send,
    ) -> Result<(String, Vec<Run>), HookError> {
        let hooks = self.subscribed(HookPoint::OnDefineDomain);
        let domain = parse(&mut xml, self.config.limits.call_deadline).await;
        if let Ok(domain) = &domain {
            observe(domain.as_document());
        }
        self.pass_parsed(invocation, vmi, &hooks, false, domain, &mut xml)
            .await
            .map(|runs| (xml, runs))
    }

    /// Refuses a virtual machine that cannot start with these plugins, before any sidecar is
    /// called. The error is the first hook that cannot be called and may not be ignored.
    pub fn admit(&self, vmi: &str, plugins: &Plugins) -> Result<(), HookError> {
        plugins.admit(vmi, self.plan_context())
    }

    /// Like [`Chain::on_define_domain`], followed by the plugins' hooks.
    pub async fn define(
        &self,
        invocation: &Invocation,
        vmi: &str,
        mut xml: String,
        plugins: &Plugins,
    ) -> Result<(String, Vec<Run>), HookError> {
        let planned = self.plan(vmi, plugins).await;
        let hooks = self.subscribed(HookPoint::OnDefineDomain);
        let hooks: Vec<&Hook> = hooks.into_iter().chain(&planned).collect();
        self.pass_domain(invocation, vmi, &hooks, false, &mut xml)
            .await
            .map(|runs| (xml, runs))
    }

    /// Passes a domain that arrives by a migration through the modules, those of plugins included. Sidecars and the sockets
    /// of plugins marshal the whole domain, with differences that libvirt refuses, and are called only if the operator's policy
    /// names them. A change that libvirt would refuse is the hook's failure.
    pub async fn on_incoming_domain(
        &self,
        invocation: &Invocation,
        vmi: &str,
        mut xml: String,
        plugins: &Plugins,
    ) -> Result<(String, Vec<Run>), HookError> {
        let planned = self.plan(vmi, plugins).await;
        let mut hooks = self.subscribed(HookPoint::OnDefineDomain);
        hooks.extend(&planned);
        hooks.retain(|hook| !hook.body.rewrites_document() || self.is_opted_in_on_arrival(hook));
        self.pass_domain(invocation, vmi, &hooks, true, &mut xml)
            .await
            .map(|runs| (xml, runs))
    }

    /// Whether the operator's policy opts a sidecar or plugin in.
    fn is_opted_in_on_arrival(&self, hook: &Hook) -> bool {
        let operator = self.config.operator.as_ref();
        operator
            .is_some_and(|operator| operator.runs_on_arrival([&hook.info.hook, &hook.info.name]))
    }

    async fn pass_domain(
        &self,
        invocation: &Invocation,
        vmi: &str,
        hooks: &[&Hook],
        arrives: bool,
        xml: &mut String,
    ) -> Result<Vec<Run>, HookError> {
        if hooks.is_empty() {
            return Ok(Vec::new());
        }
        let domain = parse(xml, self.config.limits.call_deadline).await;
        self.pass_parsed(invocation, vmi, hooks, arrives, domain, xml)
            .await
    }

    /// Passes a domain through hooks. `domain` is `xml` parsed, or why it cannot be.
    async fn pass_parsed(
        &self,
        invocation: &Invocation,
        vmi: &str,
        hooks: &[&Hook],
        arrives: bool,
        domain: Result<Domain, String>,
        xml: &mut String,
    ) -> Result<Vec<Run>, HookError> {
        let point = HookPoint::OnDefineDomain;
        let Some(first) = hooks.first() else {
            return Ok(Vec::new());
        };
        let mut domain = Arc::new(domain.map_err(|error| bad_input(first, point, error))?);
        let mut run = self.begin(point, invocation, vmi);
        if arrives {
            run.arrive();
        }
        for hook in hooks {
            let input = Input::Domain {
                domain: &domain,
                xml: xml.as_str(),
            };
            if let Output::Domain {
                domain: next,
                xml: text,
            } = run.call(hook, input).await?
            {
                (domain, *xml) = (next, text);
            }
        }
        self.update_provenance(&run.runs).await;
        Ok(run.runs)
    }

    /// Passes the parameters of a migration to another node through the modules. A veto or a failure ends the migration.
    pub async fn pre_migration_source(
        &self,
        invocation: &Invocation,
        vmi: &str,
        mut parameters: MigrationParameters,
    ) -> Result<(MigrationParameters, Vec<Run>), HookError> {
        let point = HookPoint::PreMigrationSource;
        let hooks = self.subscribed(point);
        if hooks.is_empty() {
            return Ok((parameters, Vec::new()));
        }
        let mut run = self.begin(point, invocation, vmi);
        for hook in hooks {
            let output = run.call(hook, Input::Migration(&parameters)).await?;
            if let Output::Migration(next) = output {
                parameters = next;
            }
        }
        Ok((parameters, run.runs))
    }

    /// Which hook made which change when the chain last completed OnDefineDomain, to name the
    /// hook when libvirt refuses an element.
    #[must_use]
    pub fn provenance(&self) -> Provenance {
        self.locked_provenance().clone()
    }

    /// The hook that last changed this node of the domain, a descendant or an ancestor.
    #[must_use]
    pub fn last_touched(&self, path: &str) -> Option<String> {
        self.locked_provenance()
            .last_touched(path)
            .map(str::to_owned)
    }

    fn locked_provenance(&self) -> std::sync::MutexGuard<'_, Provenance> {
        self.provenance
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The domain is complete without it, so a search that does not end is only logged.
    async fn update_provenance(&self, runs: &[Run]) {
        let provenance = Arc::new(Provenance::of(runs));
        let deadline = Instant::now() + self.config.limits.call_deadline;
        let searched = Arc::clone(&provenance);
        let work = move |budget: &Rc<Budget<'static>>| searched.overlaps_within(budget);
        match work_within_budget::run(deadline, provenance.path_bytes(), work).await {
            Ok(overlaps) => run_log::overlaps(&overlaps),
            Err(reason) => run_log::no_overlaps(&reason.to_string()),
        }
        *self.locked_provenance() = Arc::unwrap_or_clone(provenance);
    }

    /// Calls all hooks in parallel, each within its deadline and the chain's. Failures are in the
    /// runs.
    pub async fn shutdown(&self, invocation: &Invocation) -> Vec<Run> {
        let run = self.begin(HookPoint::Shutdown, invocation, "");
        let hooks = self.subscribed(HookPoint::Shutdown);
        join_all(
            hooks
                .into_iter()
                .map(|hook| run.call_alone(hook, Input::Shutdown)),
        )
        .await
    }

    async fn plan(&self, vmi: &str, plugins: &Plugins) -> Vec<Hook> {
        let entries = plugins.plan(vmi, self.plan_context()).await;
        let called = entries.into_iter().filter_map(|entry| match entry {
            PlanEntry::Hook(hook) => Some(*hook),
            PlanEntry::Skipped { hook, condition } => {
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

    fn plan_context(&self) -> PlanContext<'_> {
        PlanContext {
            operator: self.config.operator.as_ref(),
            limits: &self.config.limits,
            plugins_dir: &self.config.plugins_dir,
            modules: self.config.plugin_modules.as_deref(),
        }
    }

    fn subscribed(&self, point: HookPoint) -> Vec<&Hook> {
        let rank = |hook: &Hook| hook.info.priority(point);
        let mut hooks: Vec<&Hook> = self.hooks.iter().filter(|h| rank(h).is_some()).collect();
        hooks.sort_by(|a, b| ranked(a, rank(a)).compare(&ranked(b, rank(b))));
        hooks
    }

    fn begin<'a>(
        &'a self,
        point: HookPoint,
        invocation: &Invocation,
        vmi: &'a str,
    ) -> HookPointRun<'a> {
        if let Some(before_call) = &self.before_call {
            before_call();
        }
        let recorder = self.config.recorder.as_ref();
        let pod = &self.config.pod;
        let metrics = Some(&*self.metrics);
        HookPointRun::new(
            &self.config.limits,
            point,
            invocation,
            vmi,
            recorder,
            pod,
            metrics,
        )
    }
}

/// Parses the domain that the chain starts with. For hooks that are served, it comes from a stock launcher.
async fn parse(xml: &mut String, time: Duration) -> Result<Domain, String> {
    let text = Arc::new(std::mem::take(xml));
    let shared = Arc::clone(&text);
    let work = move |_: &_| Domain::parse(&shared);
    let parsed = work_within_budget::run(Instant::now() + time, text.len(), work).await;
    *xml = Arc::unwrap_or_clone(text);
    parsed.map_err(|unfinished| unfinished.to_string())?
}

fn ranked(hook: &Hook, priority: Option<i32>) -> Rank<'_> {
    Rank {
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
