//! `virt-hook test`: a directory of cases, run as a pod would run them.
//!
//! A case is a directory with a VMI and the expected results of hooks. All hook points that the hooks subscribe to are
//! run, in the order of a VM's life. Modules are compiled once.

mod actual_result;
mod case_discovery;
mod case_files;
mod expected_files;
mod test_case;
mod test_report;

use std::fs;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use anyhow::Context;
use clap::Args;
use hook_host::policy::UnknownPath;

use crate::granted_dirs::GrantedDirs;
use crate::hook_module::HookModule;
use crate::inputs::InstanceTypesArgs;
use crate::output_file::shell_quoted;
use crate::temporary_directory::TemporaryDirectory;
use crate::verb_failure::Failure;
use crate::{cached_compilation, module_discovery, output};
use actual_result::ActualResult;
use case_files::POLICY;
use expected_files::ExpectedFiles;
use test_case::{Case, CaseOutcome, CaseResult};
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
        if let Some(source) = newer_source(&hook.module) {
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

pub(crate) const HELP: &str = "\
A case is a directory:
  vmi.yaml or vmi.json     the VMI
  options.json, host.json  as for `render`; without a host.json, a built-in node
  domain.xml               a domain to use instead of the converted VMI
  device.xml               a device that is attached to the running VM: only OnAttachDevice runs, and the
                           expected changes are those of the device
  hook.yaml, policy.yaml   settings of the VM's owner, and the operator's policy; a file beside the cases
                           is for the cases without one
                           (a directory in allow.dirs of such a policy needs --grant-dir, too)
  pod.yaml                 facts about the pod: a Pod, or a map of annotations, labels, networkStatus and
                           networkInfo; the policy has to allow them
  invocation.json          {\"reason\": \"migration-target\"}: the VM arrives from another node; without
                           this file, it boots
  migration.json           migration parameters, NAME to VALUE: only PreMigrationSource runs
and at least one expected result (--update writes those of a new case with only a vmi.yaml):
  expected.diff            the changes of the domain; empty if nothing may change
  expected.xml             the whole domain, instead of its changes
  expected.user-data, expected.network-data, expected.meta-data
                           the cloud-init documents that hooks changed
  expected.migration       the migration parameters that hooks changed, a line `NAME: VALUE` each
  expected.veto            the message of the hook's veto
  expected.error           any other error: of the hook, the policy or the VMI; also one that failurePolicy
                           in hook.yaml ignores, in addition to the changes
A file with a similar but wrong name, such as vmi.yml or expected.network_data, is refused.

Examples:
  virt-hook test --hook smbios.wasm cases
  virt-hook test --hook smbios.wasm cases --update   # write the actual results, and review them

--update does not write, and the case fails, if the result is an unexpected error, or if the hook changes
nothing or vetoes where changes were expected: probably a mistake. --accept-errors writes these too.

Exit codes:
  0  every case has the expected result, or was updated
  1  a case does not have the expected result; standard output shows the difference
  2  invalid command line, or an unusable module or directory of cases
  3  error of this machine";

/// Arguments of `virt-hook test`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The directory of cases, or one case
    #[arg(value_name = "DIR", default_value = "cases")]
    cases: PathBuf,
    /// A WASM hook, as for `render`. May be repeated
    #[arg(long = "hook", value_name = "DIR_OR_WASM", required = true)]
    hooks: Vec<PathBuf>,
    /// The operator's policy for cases without a policy.yaml [default: the one beside the cases]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    #[command(flatten)]
    instance_types: InstanceTypesArgs,
    #[command(flatten)]
    dirs: GrantedDirs,
    /// Write the actual results into the cases, instead of comparing
    #[arg(long)]
    update: bool,
    /// With --update: also write unexpected errors and vetoes, and missing changes
    #[arg(long, requires = "update")]
    accept_errors: bool,
}

/// Maximum number of bytes that are read of cargo's list of sources.
const MAX_BYTES: u64 = 1 << 20;

/// A source that was changed after the module was built, if there is one. Cargo lists the sources in a file beside the
/// module.
fn newer_source(module: &Path) -> Option<PathBuf> {
    let built = modified(module)?;
    let mut list = String::new();
    let file = File::open(module.with_extension("d")).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    file.take(MAX_BYTES).read_to_string(&mut list).ok()?;
    let (_, sources) = list.lines().next()?.split_once(": ")?;
    // Cargo escapes the spaces within a path.
    let sources = sources.replace("\\ ", "\0");
    let sources = sources
        .split(' ')
        .map(|path| PathBuf::from(path.replace('\0', " ")));
    let mut newer = sources
        .filter(|path| path.is_absolute() && modified(path).is_some_and(|changed| changed > built));
    newer.next()
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// A part of the host's error about a wish that only the operator's policy can grant, if the policy has no list with
/// it.
const LACKS_LIST: &str = " of the operator's policy (";

/// The cases, their policy and the modules under test.
struct PolicyRemedy<'a> {
    cases: &'a Path,
    /// The policy of the option `--policy`.
    policy: Option<&'a Path>,
    modules: &'a [HookModule],
}

impl PolicyRemedy<'_> {
    /// The remedy for an error about a list that the operator's policy lacks. A misspelt path is not mended by a
    /// policy.
    fn for_error(&self, error: &str) -> Option<String> {
        if !error.contains(LACKS_LIST) || error.contains(UnknownPath::PREFIX) {
            return None;
        }
        let inspect = format!("virt-hook inspect {} --policy-only", self.module());
        let policy = self.policy.map(Path::to_owned);
        let policy = policy.unwrap_or_else(|| self.cases.join(POLICY));
        let exists = policy.symlink_metadata().is_ok();
        let name = shell_quoted(&policy);
        Some(
            match exists || error.contains(&format!("{LACKS_LIST}{POLICY}")) {
                true => format!("add to its policy what `{inspect}` prints"),
                false => format!("`{inspect} > {name}` writes the one that it needs"),
            },
        )
    }

    fn module(&self) -> String {
        match self.modules {
            [hook] => shell_quoted(&hook.module),
            _ => "MODULE".to_owned(),
        }
    }
}

/// An error, and the failed cases that end in it.
#[derive(Debug, PartialEq, Eq)]
struct SharedError<'a> {
    error: &'a str,
    cases: Vec<&'a str>,
}

/// The errors of two failed cases or more, in the order of the cases.
fn find(cases: &[CaseResult]) -> Vec<SharedError<'_>> {
    let mut errors: Vec<SharedError<'_>> = Vec::new();
    let failed = cases
        .iter()
        .filter(|case| case.outcome == CaseOutcome::Failed);
    for case in failed {
        let Some(error) = case.unexpected_error.as_deref() else {
            continue;
        };
        match errors.iter_mut().find(|known| known.error == error) {
            Some(known) => known.cases.push(&case.name),
            None => errors.push(SharedError {
                error,
                cases: vec![&case.name],
            }),
        }
    }
    errors.retain(|error| error.cases.len() > 1);
    errors
}

impl SharedError<'_> {
    /// Whether the case ends in this error.
    fn is_error_of(&self, case: &CaseResult) -> bool {
        case.unexpected_error.as_deref() == Some(self.error)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_source_that_was_changed_after_the_build_is_found() {
        let temp_dir = tempfile::tempdir().unwrap();
        let path_of = |name: &str| temp_dir.path().join(name);
        let (module, source) = (path_of("hook.wasm"), path_of("my lib.rs"));
        let now = SystemTime::now();
        for (path, age) in [(&module, 10), (&source, 20), (&path_of("other.rs"), 30)] {
            let file = File::create(path).unwrap();
            file.set_modified(now - Duration::from_secs(age)).unwrap();
        }
        assert_eq!(newer_source(&module), None);
        let path = |path: &Path| path.display().to_string().replace(' ', "\\ ");
        let list = format!(
            "{}: {} {}\n",
            path(&module),
            path(&path_of("other.rs")),
            path(&source)
        );
        fs::write(path_of("hook.d"), list).unwrap();
        assert_eq!(newer_source(&module), None);
        File::options()
            .append(true)
            .open(&source)
            .unwrap()
            .set_modified(now)
            .unwrap();
        assert_eq!(newer_source(&module), Some(source));
    }

    fn case(name: &str, error: Option<&str>) -> CaseResult {
        CaseResult {
            name: name.to_owned(),
            outcome: CaseOutcome::Failed,
            differences: Vec::new(),
            not_written: None,
            note: None,
            unexpected_error: error.map(str::to_owned),
            is_idle: false,
        }
    }

    #[test]
    fn equal_errors_of_several_cases_are_joined() {
        let cases = [
            case("a", Some("denied")),
            case("b", None),
            case("c", Some("other")),
            case("d", Some("denied")),
        ];
        let shared = find(&cases);
        let denied = SharedError {
            error: "denied",
            cases: vec!["a", "d"],
        };
        assert_eq!(shared, [denied]);
        let is_shared = cases
            .iter()
            .map(|case| shared.iter().any(|error| error.is_error_of(case)));
        assert_eq!(is_shared.collect::<Vec<_>>(), [true, false, false, true]);
    }
}
