//! Passes the domain XML through the hooks of OnDefineDomain, those of plugins included.

use std::rc::Rc;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain_xml::Document;
use domain_xml::host::Budget;

use super::chain::{Chain, bad_input};
use super::input_and_verified_output::{Input, Output};
use super::verify_domain::Domain;
use super::{run_log, work_within_budget};
use crate::hook::Hook;
use crate::kubevirt_plugins::{PlanContext, PlanEntry};
use crate::{HookError, HookPoint, Invocation, Plugins, Provenance, Run};

impl Chain {
    /// Passes the domain XML through the hooks of OnDefineDomain. The output of each hook must be a well-formed domain
    /// with the same name, uuid and KubeVirt metadata.
    pub async fn on_define_domain(
        &self,
        invocation: &Invocation,
        vmi: &str,
        xml: String,
    ) -> Result<(String, Vec<Run>), HookError> {
        self.on_define_domain_with_plugins(invocation, vmi, xml, &Plugins::default())
            .await
    }

    /// Like [`Chain::on_define_domain`]. `observe` gets the domain before the first hook is called, even if there is no
    /// hook. It is not called for XML that is not a domain.
    pub(crate) async fn on_observed_domain(
        &self,
        invocation: &Invocation,
        vmi: &str,
        mut xml: String,
        observe: impl FnOnce(&Document) + Send,
    ) -> Result<(String, Vec<Run>), HookError> {
        let hooks = self.subscribed(HookPoint::OnDefineDomain);
        let domain = parse_domain(&mut xml, self.config.limits.call_deadline).await;
        if let Ok(domain) = &domain {
            observe(domain.as_document());
        }
        self.pass_parsed(invocation, vmi, &hooks, false, domain, &mut xml)
            .await
            .map(|runs| (xml, runs))
    }

    /// Checks whether the virtual machine can start with these plugins, before any sidecar is
    /// called. The error is that of the first plugin hook that cannot be called and whose failure may not be ignored.
    pub fn check_plugins(&self, vmi: &str, plugins: &Plugins) -> Result<(), HookError> {
        plugins.check(vmi, self.plan_context())
    }

    /// Like [`Chain::on_define_domain`], followed by the plugins' hooks.
    pub async fn on_define_domain_with_plugins(
        &self,
        invocation: &Invocation,
        vmi: &str,
        mut xml: String,
        plugins: &Plugins,
    ) -> Result<(String, Vec<Run>), HookError> {
        let plugin_hooks = self.plan_plugin_hooks(vmi, plugins).await;
        let hooks = self.with_plugins(&plugin_hooks);
        self.pass_domain(invocation, vmi, &hooks, false, &mut xml)
            .await
            .map(|runs| (xml, runs))
    }

    /// Passes a domain that arrives by a migration through the modules, those of plugins included. Final hooks are called
    /// last, as at a boot, so that they make again what another hook here has undone. Sidecars, and
    /// plugins with a socket, write the whole domain anew, with differences that libvirt refuses. They are called only
    /// if the operator's policy names them. A change that libvirt would refuse is a failure of the hook.
    pub async fn on_incoming_domain(
        &self,
        invocation: &Invocation,
        vmi: &str,
        mut xml: String,
        plugins: &Plugins,
    ) -> Result<(String, Vec<Run>), HookError> {
        let plugin_hooks = self.plan_plugin_hooks(vmi, plugins).await;
        let mut hooks = self.with_plugins(&plugin_hooks);
        hooks.retain(|hook| !hook.body.rewrites_document() || self.is_opted_in_on_arrival(hook));
        self.pass_domain(invocation, vmi, &hooks, true, &mut xml)
            .await
            .map(|runs| (xml, runs))
    }

    /// The hooks of OnDefineDomain, then those of plugins, then the final hooks of both.
    fn with_plugins<'a>(&'a self, plugin_hooks: &'a [Hook]) -> Vec<&'a Hook> {
        let mut hooks = self.subscribed(HookPoint::OnDefineDomain);
        let (final_of_plugins, others): (Vec<&Hook>, Vec<&Hook>) =
            plugin_hooks.iter().partition(|hook| hook.is_final());
        let first_final = hooks.partition_point(|hook| !hook.is_final());
        hooks.splice(first_final..first_final, others);
        hooks.extend(final_of_plugins);
        hooks
    }

    /// Whether the operator's policy names a sidecar or plugin to be called for a domain that arrives by a migration.
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
        let domain = parse_domain(xml, self.config.limits.call_deadline).await;
        self.pass_parsed(invocation, vmi, hooks, arrives, domain, xml)
            .await
    }

    /// Passes a domain through hooks. `domain` is the parsed `xml`, or the parse error.
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
        let mut run = self.begin_run(point, invocation, vmi);
        if arrives {
            run.set_arriving();
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
        *self.seals.lock().unwrap_or_else(PoisonError::into_inner) = run.seals;
        Ok(run.runs)
    }

    /// Which hook made which change in the last completed OnDefineDomain. Callers use it to name the
    /// hook if libvirt refuses an element.
    #[must_use]
    pub fn provenance(&self) -> Provenance {
        self.locked_provenance().clone()
    }

    /// The hook that last changed this node of the domain, one of its descendants or one of its ancestors.
    #[must_use]
    pub fn last_touched(&self, path: &str) -> Option<String> {
        self.locked_provenance()
            .last_touched(path)
            .map(str::to_owned)
    }

    fn locked_provenance(&self) -> MutexGuard<'_, Provenance> {
        self.provenance
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the provenance, and logs nodes that several hooks changed. The domain is complete without this search, so
    /// a search that exceeds its budget is only logged.
    async fn update_provenance(&self, runs: &[Run]) {
        let provenance = Arc::new(Provenance::of(runs));
        let deadline = Instant::now() + self.config.limits.call_deadline;
        let shared = Arc::clone(&provenance);
        let work = move |budget: &Rc<Budget<'static>>| shared.overlaps_within(budget);
        match work_within_budget::run(deadline, provenance.path_bytes(), work).await {
            Ok(overlaps) => run_log::log_overlaps(&overlaps),
            Err(reason) => run_log::log_unfinished_search(&reason.to_string()),
        }
        *self.locked_provenance() = Arc::unwrap_or_clone(provenance);
    }

    async fn plan_plugin_hooks(&self, vmi: &str, plugins: &Plugins) -> Vec<Hook> {
        let entries = plugins.plan(vmi, self.plan_context()).await;
        let hooks = entries.into_iter().filter_map(|entry| match entry {
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
        hooks.collect()
    }

    fn plan_context(&self) -> PlanContext<'_> {
        PlanContext {
            operator: self.config.operator.as_ref(),
            limits: &self.config.limits,
            plugins_dir: &self.config.plugins_dir,
            modules: self.config.plugin_modules.as_deref(),
        }
    }
}

/// Parses the domain that the chain starts with, within a budget: for served hooks, it comes from a stock launcher.
async fn parse_domain(xml: &mut String, time: Duration) -> Result<Domain, String> {
    let text = Arc::new(std::mem::take(xml));
    let shared = Arc::clone(&text);
    let work = move |_: &_| Domain::parse(&shared);
    let parsed = work_within_budget::run(Instant::now() + time, text.len(), work).await;
    *xml = Arc::unwrap_or_clone(text);
    parsed.map_err(|budget_error| budget_error.to_string())?
}
