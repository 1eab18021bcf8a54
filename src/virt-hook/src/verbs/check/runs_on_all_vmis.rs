//! The collected hook and its runs on all checked VMIs.

use std::path::Path;

use anyhow::Context;
use hook_host::{ConditionedPath, Description, HookPoint, PolicySource, Reason};

use super::check_finding::{CheckVerdict, Finding};
use super::checked_vmis::CheckedVmi;
use super::migration_target_vmi::on_another_node;
use super::two_runs_on_vmi::TwoRuns;
use crate::collected_hooks::{CollectedHooks, HookResults};
use crate::grant_arguments::GrantArgs;
use crate::inputs::VmiInput;
use crate::module_chain::HookOptions;
use crate::module_discovery;
use crate::temporary_directory::TemporaryDirectory;
use crate::verb_failure::Failure;

/// After this many VMIs on which the hook exceeds its deadline, the others are skipped.
const MAX_HANGS: usize = 2;

/// The hook and its runs on the checked VMIs.
pub(super) struct RunsOnAllVmis {
    pub(super) hooks: CollectedHooks,
    pub(super) wishes: Vec<ConditionedPath>,
    pub(super) runs: Vec<TwoRuns>,
    /// Number of VMIs that were skipped because the hook exceeded its deadline on others.
    pub(super) skipped: usize,
}

impl RunsOnAllVmis {
    /// Collects the hook and runs it on every VMI. The inner error is the finding that the policy refuses the hook.
    pub(super) fn run(
        module: &Path,
        description: &Description,
        grants: &GrantArgs,
        options: HookOptions,
        vmis: Vec<CheckedVmi>,
    ) -> Result<Result<Self, Finding>, Failure> {
        let modules = module_discovery::find(&[module.to_owned()]).map_err(Failure::Usage)?;
        let temp_dir = TemporaryDirectory::new()
            .context("making a temporary directory")
            .map_err(Failure::Internal)?;
        let policy = grants.policy_for(std::slice::from_ref(description), temp_dir.path());
        let hooks = policy.and_then(|policy| {
            let options = HookOptions {
                policy: PolicySource::File(policy),
                ..options
            };
            CollectedHooks::collect(&modules, options)
        });
        let hooks = match hooks {
            Ok(hooks) => hooks,
            Err(refusal @ Failure::Refused(_)) => {
                return Ok(Err(Finding::new(
                    "policy",
                    CheckVerdict::Failed,
                    refusal.line(),
                )));
            }
            Err(failure) => return Err(failure),
        };
        let wishes = description.wishes.iter();
        let wishes = wishes.flat_map(|wishes| wishes.paths.clone()).collect();
        // Every expired deadline costs its full time and tells nothing new.
        let mut runs: Vec<TwoRuns> = Vec::new();
        let mut skipped = 0;
        for vmi in vmis {
            if runs.iter().filter(|run| run.hangs()).count() < MAX_HANGS {
                runs.push(TwoRuns::run(&hooks, vmi)?);
            } else {
                skipped += 1;
            }
        }
        Ok(Ok(Self {
            runs,
            skipped,
            hooks,
            wishes,
        }))
    }

    /// The runs whose first run had no error.
    pub(super) fn runs_without_error(&self) -> impl Iterator<Item = &TwoRuns> {
        self.runs.iter().filter(|run| run.first.error.is_none())
    }

    /// Runs OnDefineDomain on `xml`. Returns the domain, or `None` if the hook vetoes or fails.
    pub(super) fn define(&self, input: &VmiInput, xml: String) -> Result<Option<String>, Failure> {
        let input = VmiInput {
            xml,
            ..input.clone()
        };
        let results = self.hooks.run(&input, &[HookPoint::OnDefineDomain])?;
        Ok(results.error.is_none().then_some(results.xml))
    }

    /// Runs the hook as on the target of a migration, which is another node: first the hook points of a start on the
    /// converted domain, then OnDefineDomain on the incoming domain.
    pub(super) fn run_on_target(&self, run: &TwoRuns) -> Result<HookResults, Failure> {
        let mut input = run.input.clone();
        input.invocation.reason = Reason::MigrationTarget;
        input.vmi = on_another_node(&input.vmi).map_err(Failure::usage)?;
        let mut points = vec![HookPoint::PreStart, HookPoint::OnDefineDomain];
        if input.cloud_init.is_ok() {
            points.insert(1, HookPoint::PreCloudInitIso);
        }
        let prepared = self.hooks.run(&input, &points)?;
        if prepared.error.is_some() {
            return Ok(prepared);
        }
        let incoming = input.after(&run.first.xml, &[], run.first.cloud_init.clone());
        self.hooks.run(&incoming, &[HookPoint::OnDefineDomain])
    }
}
