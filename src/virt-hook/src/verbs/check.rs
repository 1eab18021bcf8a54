//! `virt-hook check`: checks of a hook that need no cluster.

mod behaviour_findings;
mod built_in_vmis;
mod check_finding;
mod checked_vmis;
mod confined_tool;
mod libvirt_define_check;
mod libvirt_schema_check;
mod migration_check;
mod migration_target_vmi;
mod module_checks;
mod required_versions_check;
mod reviewed_libvirt_version_check;
mod runs_on_all_vmis;
mod tool_process;
mod two_runs_on_vmi;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use domain::convert::architecture_names;
use hook_host::PolicySource;
use hook_host::policy::OperatorPolicy;
use hook_host::wasm::LoadError;
use serde::Serialize;

use crate::compiled_module_cache::SmallestSidecarResult;
use crate::grant_arguments::GrantArgs;
use crate::host_version_options::HostVersionOptions;
use crate::inputs::{InstanceTypesArgs, PodFactsInput};
use crate::interactive_compile::module_file_size;
use crate::module_chain::{HookOptions, ModuleCode};
use crate::output::{Report, Style};
use crate::temporary_directory::TemporaryDirectory;
use crate::tokio_runtime::runtime;
use crate::verb_failure::Failure;
use crate::verbs::inspect::ModuleReport;
use crate::{cached_compilation, interactive_compile, output};
use check_finding::{CheckVerdict, Finding};
use checked_vmis::{CheckedVmi, CheckedVmis};
pub(crate) use confined_tool::confined_tool;
use runs_on_all_vmis::RunsOnAllVmis;

pub(crate) const HELP: &str = "\
Checks on the module:
  - the version of its WIT world, its hook points, and its size (a ConfigMap holds 1 MiB)
  - that its wishes match its imports and its actual changes
Checks on built-in sample VMIs, and on those of --vmi:
  - that it neither crashes nor reaches its limits
  - that a second run changes nothing
  - that a VM with it can migrate
  - with libvirt's tools, that libvirt accepts its domains (RELAX NG schema, define), and that a run on
    libvirt's normalised XML changes nothing more
libvirt defines no domain with changes of the dangerous set, whatever the policy grants: it would run
programs and delete files that they name. These checks are `not checked` then.
The settings are those of the hook.yaml beside the module.

Examples:
  virt-hook check smbios.wasm
  virt-hook check smbios.wasm --vmi vmi-with-the-annotation.yaml
  virt-hook check smbios.wasm --arch arm64
  virt-hook check smbios.wasm --policy cluster-policy.yaml --json

Exit codes:
  0  no check failed (the last line is `ok: ...` or `doubtful: ...`); a check may be doubtful or not done
  1  a check failed; the last line of standard output names the failed checks (`failed: ...`);
     with --strict also if a check was not done
  2  invalid command line, or an unusable file
  3  error of this machine";

/// Arguments of `virt-hook check`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The module
    #[arg(value_name = "WASM")]
    module: PathBuf,
    /// VMIs that the hook changes, in addition to the built-in ones: a file, a directory with files, or a quoted pattern
    /// for their names. May be repeated
    #[arg(long, value_name = "FILE_OR_DIR")]
    vmi: Vec<PathBuf>,
    /// The architecture of the node: built-in sample VMIs are those for it [default: amd64 for the built-in VMIs, and for
    /// each other one that of its spec.architecture]
    #[arg(long, value_name = "ARCHITECTURE", value_parser = architecture_names())]
    arch: Option<String>,
    #[command(flatten)]
    instance_types: InstanceTypesArgs,
    #[command(flatten)]
    grants: GrantArgs,
    /// The namespace for the policy's rules [default: that of the VMIs of --vmi, else `default`]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Facts about the pod, as for `run`
    #[arg(long, value_name = "FILE")]
    pod: Option<PathBuf>,
    #[command(flatten)]
    versions: HostVersionOptions,
    /// Skip the checks that use libvirt's tools
    #[arg(long)]
    without_libvirt: bool,
    /// Fail if a check could not be made
    #[arg(long)]
    strict: bool,
}

/// The findings of all checks.
#[derive(Debug, Serialize)]
pub(crate) struct CheckReport {
    verdict: CheckVerdict,
    findings: Vec<Finding>,
    /// Whether the exit code is also 1 if a check was not made.
    #[serde(skip)]
    strict: bool,
}

/// Checks the module file, then its behaviour.
pub(crate) fn run(arguments: &Arguments) -> Result<CheckReport, Failure> {
    let findings = findings(arguments)?;
    Ok(CheckReport {
        verdict: check_finding::overall(&findings),
        findings,
        strict: arguments.strict,
    })
}

fn findings(arguments: &Arguments) -> Result<Vec<Finding>, Failure> {
    let path = &arguments.module;
    let bytes = module_file_size(path).map_err(Failure::Usage)?;
    let temp_dir = TemporaryDirectory::new()
        .context("making a temporary directory")
        .map_err(Failure::Internal)?;
    let compiled_dir = temp_dir.path().join("compiled");
    let mut findings = vec![module_checks::fits_config_map(path, bytes)];
    let (loaded, mut compile_cost) = match cached_compilation::load_measured(path, &compiled_dir)? {
        Ok(loaded) => loaded,
        Err(error) if !error.is_fault_of_module() => return Err(Failure::internal(error)),
        // A file that is not a module at all has no properties to check.
        Err(error @ LoadError::Flawed { .. }) => return Err(Failure::usage(error)),
        Err(error) => {
            let why = interactive_compile::explain(error).to_string();
            findings.push(Finding::new("world", CheckVerdict::Failed, why));
            return Ok(findings);
        }
    };
    let cost = compile_cost.cost.clone().unwrap_or_default();
    let report = ModuleReport::new(&loaded, bytes, Some(&cost));
    let peak = cost.peak_memory.unwrap_or_default();
    let measured = compile_cost.measured_note();
    let refused = || match cost.in_smallest_sidecar {
        SmallestSidecarResult::Refused(limit) => Ok(Some(limit)),
        SmallestSidecarResult::Suffices => Ok(None),
        SmallestSidecarResult::NotTried => {
            let refused = refused_in_smallest_sidecar(path)?;
            let result = refused.clone().map(SmallestSidecarResult::Refused);
            compile_cost.set_smallest_sidecar(result.unwrap_or(SmallestSidecarResult::Suffices));
            Ok(refused)
        }
    };
    let compiling = module_checks::compiling(cost.millis, peak, measured, refused)?;
    findings.extend(module_checks::findings(&report, compiling, path));
    findings.extend(module_checks::operator_grants_finding(loaded.description()));
    if let Some(finding) = required_versions_check::finding(path, &arguments.versions)? {
        let failed = finding.failed();
        findings.push(finding);
        if failed {
            return Ok(findings);
        }
    }
    let CheckedVmis { vmis, refused } = CheckedVmis::read(
        &arguments.vmi,
        &arguments.instance_types,
        arguments.arch.as_deref(),
    )?;
    findings.extend(checked_vmis::refused_vmis_finding(refused));
    let options = HookOptions {
        namespace: namespace(arguments, &vmis)?,
        code: ModuleCode::Compiled(compiled_dir),
        pod: PodFactsInput::from_file(arguments.pod.as_deref()),
        ..HookOptions::default()
    };
    let behaviour =
        RunsOnAllVmis::run(path, loaded.description(), &arguments.grants, options, vmis)?;
    let behaviour = match behaviour {
        Ok(behaviour) => behaviour,
        Err(refused) => {
            findings.push(refused);
            return Ok(findings);
        }
    };
    findings.extend(behaviour.findings());
    findings.push(migration_check::finding(&behaviour, loaded.description())?);
    if !arguments.without_libvirt {
        warn_of_missing_confinement();
        findings.push(reviewed_libvirt_version_check::finding()?);
        findings.push(libvirt_schema_check::finding(&behaviour)?);
        findings.extend(libvirt_define_check::findings(&behaviour)?);
    }
    check_finding::mark_consequences(&mut findings);
    Ok(findings)
}

/// Warns of what libvirt's tools are not kept from on this kernel.
fn warn_of_missing_confinement() {
    let missing = confined_tool::missing_restrictions();
    if !missing.is_empty() {
        output::warn(&format!(
            "the kernel's Landlock does not keep libvirt's tools from this: {}; --without-libvirt does without them",
            missing.join(", ")
        ));
    }
}

/// The namespace for the policy's rules: only one, because the module is collected once.
fn namespace(arguments: &Arguments, vmis: &[CheckedVmi]) -> Result<String, Failure> {
    if let Some(namespace) = &arguments.namespace {
        return Ok(namespace.clone());
    }
    let of_author = vmis.iter().filter(|vmi| !vmi.is_built_in);
    let namespaces: BTreeSet<&str> = of_author
        .map(|vmi| vmi.input.invocation.namespace.as_str())
        .collect();
    let mut namespaces = namespaces.into_iter();
    let first = namespaces.next().unwrap_or("default");
    if let (Some(policy), Some(second)) = (&arguments.grants.policy, namespaces.next()) {
        let source = PolicySource::File(policy.clone());
        let policy = OperatorPolicy::read(&source).map_err(Failure::usage)?;
        if policy.is_some_and(|policy| policy.has_namespace_rules()) {
            return Err(Failure::usage(anyhow!(
                "the VMIs are in several namespaces ({first}, {second}), and rules of the policy name namespaces: give one \
                 with --namespace, or use `virt-hook compare`"
            )));
        }
    }
    Ok(first.to_owned())
}

/// The limit that the module exceeds when it is compiled as in the smallest sidecar, if any.
fn refused_in_smallest_sidecar(path: &Path) -> Result<Option<String>, Failure> {
    let loaded = runtime()?.block_on(interactive_compile::load_in_smallest_sidecar(path));
    let refused = loaded?.err();
    Ok(refused.map(|error| interactive_compile::exceeded_limit(&error)))
}

impl Report for CheckReport {
    fn text(&self, style: Style) -> String {
        let findings = self.findings.iter();
        let lines: String = findings.map(|finding| finding.text(style)).collect();
        lines + &check_finding::summary(&self.findings, style)
    }

    fn complaint(&self) -> Option<String> {
        let failed = self.findings.iter().filter(|finding| finding.failed());
        let not_made = self.findings.iter().filter(|finding| finding.not_checked());
        match (failed.count(), not_made.count()) {
            (0, 0) => None,
            (0, _) if !self.strict => None,
            (0, 1) => Some("1 check could not be made".to_owned()),
            (0, not_made) => Some(format!("{not_made} checks could not be made")),
            (1, _) => Some("1 check failed".to_owned()),
            (failed, _) => Some(format!("{failed} checks failed")),
        }
    }
}
