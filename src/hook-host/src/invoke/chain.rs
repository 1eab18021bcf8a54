//! `Chain`: the collected hooks and their configuration.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures_util::future::join_all;

use super::chain_config::{BeforeCall, ChainConfig};
use super::hook_order::{Rank, natural_order};
use super::hook_point_run::HookPointRun;
use super::input_and_verified_output::{Input, Output};
use super::work_within_budget;
use crate::cloud_init::CloudInit;
use crate::hook::{Hook, HookInfo};
use crate::pod_facts::PodFactSource;
use crate::policy::OperatorPolicy;
use crate::record::RecordWriter;
use crate::sealed_changes::Seals;
use crate::{
    CloudInitDocuments, HookError, HookMetrics, HookPoint, Invocation, MigrationParameters,
    Provenance, Run,
};

/// The collected hooks, which are called at hook points. Between calls no task runs, and the epoch thread ends one
/// second after a call.
#[derive(Default)]
pub struct Chain {
    hooks: Vec<Hook>,
    pub(super) config: ChainConfig,
    before_call: Option<BeforeCall>,
    pub(super) provenance: Mutex<Provenance>,
    /// What final hooks changed in the last completed OnDefineDomain, for hooks of OnAttachDevice.
    pub(super) seals: Mutex<Seals>,
    metrics: Arc<HookMetrics>,
}

impl Chain {
    pub(crate) fn new(
        mut hooks: Vec<Hook>,
        config: ChainConfig,
        before_call: Option<BeforeCall>,
    ) -> Self {
        hooks.sort_by(|a, b| {
            natural_order(&a.info.directory, &b.info.directory)
                .then_with(|| natural_order(&a.info.file, &b.info.file))
        });
        let metrics = Arc::<HookMetrics>::default();
        hooks.iter().for_each(|hook| metrics.add(&hook.info));
        Self {
            hooks,
            config,
            before_call,
            provenance: Mutex::default(),
            seals: Mutex::default(),
            metrics,
        }
    }

    /// All hooks, by directory in natural order.
    #[must_use]
    pub fn hooks(&self) -> Vec<HookInfo> {
        self.hooks.iter().map(|hook| hook.info.clone()).collect()
    }

    /// Whether a run could not be recorded, for instance because the file system of the records did not answer in time.
    pub fn lacks_record(&self) -> bool {
        let recorder = self.config.recorder.as_ref();
        recorder.is_some_and(RecordWriter::has_unrecorded_run)
    }

    /// Counts of the hooks' calls since the collection.
    #[must_use]
    pub fn metrics(&self) -> &Arc<HookMetrics> {
        &self.metrics
    }

    /// Whether a Kubernetes event is published for each hook that was applied, as the operator's policy says.
    #[must_use]
    pub fn publishes_applied_events(&self) -> bool {
        let operator = self.config.operator.as_ref();
        operator.is_none_or(OperatorPolicy::publishes_applied_events)
    }

    /// The names of the hooks that are called at a hook point, in order.
    #[must_use]
    pub fn order(&self, point: HookPoint) -> Vec<&str> {
        self.subscribed(point)
            .into_iter()
            .map(|hook| hook.info.hook.as_str())
            .collect()
    }

    /// A message per hook and reason about the facts that the hook declares and this host cannot see, whatever the pod
    /// has.
    #[must_use]
    pub fn wishes_without_mount(&self) -> Vec<String> {
        let PodFactSource::Files(files) = &self.config.pod else {
            return Vec::new();
        };
        let messages_of_hook = |hook: &Hook| {
            let unseen = files.wishes_without_mount(hook.settings.pod.wishes());
            let messages = unseen.into_iter().map(|(reason, facts)| {
                let facts: Vec<_> = facts.into_iter().map(ToString::to_string).collect();
                format!("{} wants {}: {reason}", hook.info.hook, facts.join(", "))
            });
            messages.collect::<Vec<_>>()
        };
        self.hooks.iter().flat_map(messages_of_hook).collect()
    }

    /// Calls the hooks of PreStart, before anything is prepared. `vmi` is the VMI as JSON. The first veto
    /// or failure stops the start.
    pub async fn pre_start(
        &self,
        invocation: &Invocation,
        vmi: &str,
    ) -> Result<Vec<Run>, HookError> {
        let mut run = self.begin_run(HookPoint::PreStart, invocation, vmi);
        for hook in self.subscribed(HookPoint::PreStart) {
            run.call(hook, Input::PreStart).await?;
        }
        Ok(run.runs)
    }

    /// Passes cloud-init data through the hooks of PreCloudInitIso. Callers call this only if the VMI has such data.
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
        let decoded = decoded
            .await
            .map_err(|budget_error| budget_error.to_string());
        let data = decoded.and_then(|decoded| decoded);
        let mut data = data.map_err(|error| bad_input(first, point, error))?;
        let mut run = self.begin_run(point, invocation, vmi);
        for hook in hooks {
            if let Output::CloudInit(changed) = run.call(hook, Input::CloudInit(&data)).await? {
                data = changed;
            }
        }
        Ok((data.encode(), run.runs))
    }

    /// Passes the parameters of a migration to another node through the hooks of PreMigrationSource. A veto or failure
    /// ends the migration.
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
        let mut run = self.begin_run(point, invocation, vmi);
        for hook in hooks {
            let output = run.call(hook, Input::Migration(&parameters)).await?;
            if let Output::Migration(changed) = output {
                parameters = changed;
            }
        }
        Ok((parameters, run.runs))
    }

    /// Calls the hooks of Shutdown in parallel, each within its deadline and the chain's. Failures are in the
    /// returned runs.
    pub async fn shutdown(&self, invocation: &Invocation) -> Vec<Run> {
        let run = self.begin_run(HookPoint::Shutdown, invocation, "");
        let hooks = self.subscribed(HookPoint::Shutdown);
        join_all(
            hooks
                .into_iter()
                .map(|hook| run.call_alone(hook, Input::Shutdown)),
        )
        .await
    }

    /// The hooks that subscribe to a hook point, in the order of their calls.
    pub(super) fn subscribed(&self, point: HookPoint) -> Vec<&Hook> {
        let priority = |hook: &Hook| hook.info.priority(point);
        let mut hooks: Vec<&Hook> = self
            .hooks
            .iter()
            .filter(|hook| priority(hook).is_some())
            .collect();
        hooks.sort_by(|a, b| rank(a, priority(a)).compare(&rank(b, priority(b))));
        hooks
    }

    pub(super) fn begin_run<'a>(
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

fn rank(hook: &Hook, priority: Option<i32>) -> Rank<'_> {
    Rank {
        is_final: hook.is_final(),
        priority: priority.unwrap_or_default(),
        directory: &hook.info.directory,
        file: &hook.info.file,
    }
}

pub(super) fn bad_input(hook: &Hook, point: HookPoint, message: String) -> HookError {
    HookError::BadInput {
        hook: hook.info.hook.clone(),
        point,
        message,
    }
}
