//! `virt-hook test`: a directory of cases, run as a pod would run them.
//!
//! A case is a directory with a VMI and the expected results of hooks. All hook points that the hooks subscribe to are
//! run, in the order of a VM's life. Modules are compiled once.

mod actual_result;
mod arguments;
mod case_discovery;
mod case_files;
mod case_result;
mod difference;
mod expected_files;
mod policy_remedy;
mod shared_errors;
mod stale_module;
mod test_case;
mod test_report;

use std::path::Path;
use std::time::Instant;

use anyhow::Context;

use crate::cached_compilation;
use crate::hook_module::HookModule;
use crate::module_discovery;
use crate::output;
use crate::temporary_directory::TemporaryDirectory;
use crate::verb_failure::Failure;
use actual_result::ActualResult;
pub(crate) use arguments::{Arguments, HELP};
use case_result::{CaseOutcome, CaseResult};
use expected_files::ExpectedFiles;
use policy_remedy::PolicyRemedy;
use test_case::Case;
use test_report::TestReport;

/// The note about a case that would pass with any hook.
const NO_CALLS_NOTE: &str = "no hook was called: the VMI of a case for PreCloudInitIso has cloud-init data, a case for OnAttachDevice has \
    a device.xml, and one for PreMigrationSource a migration.json";

/// Runs all cases.
pub(crate) fn run(arguments: &Arguments) -> Result<TestReport, Failure> {
    let started = Instant::now();
    let policy = arguments.policy.as_deref();
    let instance_types = arguments.instance_types.read()?;
    let cases = Case::find(&arguments.cases, policy, &instance_types).map_err(Failure::Usage)?;
    Case::check_shared_files(&cases)?;
    Case::check_granted_dirs(&cases, policy, &arguments.dirs)?;
    let modules = module_discovery::find(&arguments.hooks).map_err(Failure::Usage)?;
    for hook in &modules {
        if let Some(source) = stale_module::newer_source(&hook.module) {
            output::warn(&format!(
                "{} is older than {}: build it again",
                hook.module.display(),
                source.display()
            ));
        }
    }
    let temp_dir = TemporaryDirectory::new()
        .context("making a temporary directory")
        .map_err(Failure::Internal)?;
    let compiled = temp_dir.path().join("compiled");
    // A module that is not a hook is an error of the command, and not of each case.
    cached_compilation::compile_once(&modules, &compiled)?;
    let results: Result<Vec<CaseResult>, Failure> = cases
        .iter()
        .map(|case| run_case(case, &modules, &compiled, arguments))
        .collect();
    let remedy = PolicyRemedy {
        cases: &arguments.cases,
        policy,
        modules: &modules,
    };
    Ok(TestReport::new(results?, started, &remedy))
}

fn run_case(
    case: &Case,
    modules: &[HookModule],
    compiled: &Path,
    arguments: &Arguments,
) -> Result<CaseResult, Failure> {
    let actual = case.run(modules, compiled)?;
    let expected = ExpectedFiles::read(&case.dir)?;
    let differences = expected.differences(&actual);
    let doubt = expected.doubt(&actual);
    let not_written = doubt.filter(|_| arguments.update && !arguments.accept_errors);
    let outcome = match (differences.is_empty(), arguments.update, not_written) {
        (true, _, _) => CaseOutcome::Passed,
        (false, false, _) | (false, true, Some(_)) => CaseOutcome::Failed,
        (false, true, None) => {
            expected
                .update(&case.dir, &actual)
                .map_err(Failure::Internal)?;
            CaseOutcome::Updated
        }
    };
    let is_new_without_changes =
        outcome == CaseOutcome::Updated && expected.is_new_without_changes(&actual);
    Ok(CaseResult {
        name: case.name.clone(),
        note: match actual.lacks_calls() {
            true => Some(NO_CALLS_NOTE),
            false => is_new_without_changes.then_some("writes that nothing changes"),
        },
        not_written: not_written.filter(|_| outcome == CaseOutcome::Failed),
        unexpected_error: match &actual {
            ActualResult::Error(error) if outcome == CaseOutcome::Failed && doubt.is_some() => {
                Some(with_likely_cause(error))
            }
            _ => None,
        },
        is_idle: actual.is_idle(),
        outcome,
        differences,
    })
}

/// An error with its probable cause. `expected.error` has the error alone.
fn with_likely_cause(error: &str) -> String {
    let is_deadline = error.contains(" did not answer ") && error.contains(" within ");
    match is_deadline {
        true => format!("{error}: an endless loop?"),
        false => error.to_owned(),
    }
}
