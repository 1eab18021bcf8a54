//! `virt-hook compare`: a port against its original, or hooks against none, over many VMIs.

mod compare_report;
mod compared_hook;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use domain_xml::Document;
use domain_xml::host::diff;
use hook_host::HookPoint;
use serde::Serialize;

use crate::cloud_init_documents_by_name::cloud_init_documents_by_name;
use crate::collected_hooks::HookResults;
use crate::grant_arguments::GrantArgs;
use crate::inputs;
use crate::inputs::{
    CloudInitUnavailable, DumpContent, DumpEntry, InstanceTypesArgs, ManifestPaths, VmiInput,
    VmiSource,
};
use crate::output::{ChangeReport, RunReport, Style, unified_diff};
use crate::temporary_directory::TemporaryDirectory;
use crate::verb_failure::Failure;
pub(crate) use compare_report::CompareReport;
use compare_report::VmiGroup;
use compared_hook::{ComparedHook, ComparedHookOptions};

pub(crate) const HELP: &str = "\
With --original, compares the effects of a port and of its original. The original is a module, a script
as KubeVirt's sidecar-shim runs it (`SCRIPT --vmi JSON --domain XML`), or the socket of a running hook
sidecar. The XML is compared by content, not by notation. Cloud-init documents are compared too, except
with a script, which has none. With a script, the port runs at PreStart, which must let the VM start, and
at OnDefineDomain.

Two refusals count as equal, whatever their messages are. A side that did not run counts as not compared:
a script that prints nothing and ends with 2, 126 or 127, or a module that the policy does not let run.

Without --original, shows what the hooks change in each VMI, as a preview of a rollout.

A file has one or more VMIs (`kubectl get vm,vmi -A -o json`). A VirtualMachine whose VMI is in the input
is skipped; objects of other kinds are reported.

Examples:
  virt-hook compare --hook port.wasm --original ./onDefineDomain --vmi vmi.yaml
  virt-hook compare --hook port.wasm --original /run/hooks/old.sock --vmi-dir dump
  kubectl get vm,vmi -A -o json > dump/all.json; virt-hook compare --hook new.wasm --vmi-dir dump

Exit codes:
  0  the same effect on every VMI; without --original, no hook vetoed or failed
  1  a different effect, or a failure that hook.yaml ignores; standard output shows it
  2  invalid command line, or an unusable file
  3  error of this machine
  4  the effect is the same where it was compared, but nothing was compared on some VMIs: neither side ran,
     a side has none of the compared hook points, or a hook needs facts about the pod (--pod)";

/// Arguments of `virt-hook compare`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The port, or a hook to preview, as for `render`. May be repeated
    #[arg(long = "hook", value_name = "DIR_OR_WASM", required = true)]
    hooks: Vec<PathBuf>,
    /// The original: a module, a sidecar-shim script, or a sidecar's socket
    #[arg(long, value_name = "FILE")]
    original: Option<PathBuf>,
    /// Files with VMIs, directories with such files, or patterns for their names. May be repeated
    #[arg(long, value_name = "FILE_OR_DIR", num_args = 1.., required_unless_present = "vmi_dir")]
    vmi: Vec<PathBuf>,
    /// A directory with files of VMIs: *.yaml, *.yml, *.json
    #[arg(long, value_name = "DIR")]
    vmi_dir: Option<PathBuf>,
    #[command(flatten)]
    instance_types: InstanceTypesArgs,
    #[command(flatten)]
    grants: GrantArgs,
    /// Facts about the pod, the same for every VMI, as for `run`
    #[arg(long, value_name = "FILE")]
    pod: Option<PathBuf>,
}

/// Runs both sides on every VMI.
pub(crate) fn run(arguments: &Arguments) -> Result<CompareReport, Failure> {
    let vmis = vmis(arguments)?;
    let temp_dir = TemporaryDirectory::new()
        .context("making a temporary directory")
        .map_err(Failure::Internal)?;
    let options = ComparedHookOptions {
        grants: &arguments.grants,
        pod: arguments.pod.as_deref(),
    };
    let mut port =
        ComparedHook::from_modules(&arguments.hooks, options, &temp_dir.path().join("port"))?;
    let mut original = match &arguments.original {
        Some(path) => ComparedHook::open(path, options, &temp_dir.path().join("original"))?,
        None => ComparedHook::NoHook,
    };
    let mut groups: Vec<VmiGroup> = Vec::new();
    let mut cloud_init_not_compared = 0;
    for DumpEntry { name, content, .. } in vmis {
        let comparison = match content {
            DumpContent::Vmi(input) => {
                let is_left_out = lacks_cloud_init(&input, &mut original, &mut port)?;
                cloud_init_not_compared += usize::from(is_left_out);
                compare(&input, &mut original, &mut port)?
            }
            DumpContent::Refused(refusal) => VmiComparison::for_refused_vmi(&refusal),
            DumpContent::NoVm(reason) => VmiComparison::for_other_object(reason),
            DumpContent::Unreadable(reason) => VmiComparison::for_unreadable_object(&reason),
        };
        match groups
            .iter_mut()
            .find(|group| group.comparison == comparison)
        {
            Some(group) => group.vmis.push(name),
            None => groups.push(VmiGroup {
                comparison,
                vmis: vec![name],
            }),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.vmis.len()));
    let is_preview = arguments.original.is_none();
    Ok(CompareReport::new(
        groups,
        cloud_init_not_compared,
        is_preview,
    ))
}

/// Reads and converts the VMIs with the same fixed host facts. The result also has the objects that cannot be converted,
/// with the reason.
fn vmis(arguments: &Arguments) -> Result<Vec<DumpEntry>, Failure> {
    let mut paths = ManifestPaths::find(&arguments.vmi).map_err(Failure::Usage)?;
    if let Some(directory) = &arguments.vmi_dir {
        let of_directory = inputs::in_directory(directory).map_err(Failure::Usage)?;
        paths.of_directories.extend(of_directory);
    }
    let instance_types = arguments.instance_types.read()?;
    let source = VmiSource::on_any_node(Path::new(""), &instance_types);
    inputs::read_and_convert_vmis(&paths, &source)
}

fn compare(
    input: &VmiInput,
    original: &mut ComparedHook,
    port: &mut ComparedHook,
) -> Result<VmiComparison, Failure> {
    if let Err(CloudInitUnavailable {
        is_in_secret: false,
        reason,
    }) = &input.cloud_init
    {
        return Ok(VmiComparison::for_refused_vmi(reason));
    }
    let points = port.points(original);
    let namespace = &input.invocation.namespace;
    // A side that is not called differs from one that is called and does nothing.
    let is_original_called =
        matches!(original, ComparedHook::NoHook) || original.is_called_at(&points, namespace)?;
    let port_result = match port.is_called_at(&points, namespace)? {
        true => port.run(input, &points)?,
        false => not_called(&points),
    };
    let original_result = match is_original_called {
        true => original.run(input, &points)?,
        false => not_called(&points),
    };
    let comparison = VmiComparison::between(&original_result, &port_result);
    Ok(match original {
        ComparedHook::NoHook => comparison,
        _ => comparison.with_original(),
    })
}

/// The outcome of a side that is called at none of the compared hook points.
fn not_called(points: &[HookPoint]) -> VmiOutcome {
    let points: Vec<String> = points.iter().map(HookPoint::to_string).collect();
    VmiOutcome::Unknown(format!(
        "it is called at none of the hook points that are compared: {}",
        points.join(", ")
    ))
}

/// Whether a hook would be called with cloud-init data that is only in the cluster.
fn lacks_cloud_init(
    input: &VmiInput,
    original: &mut ComparedHook,
    port: &mut ComparedHook,
) -> Result<bool, Failure> {
    let (point, namespace) = (HookPoint::PreCloudInitIso, &input.invocation.namespace);
    let is_in_secret = matches!(&input.cloud_init, Err(error) if error.is_in_secret);
    if !is_in_secret || !port.points(original).contains(&point) {
        return Ok(false);
    }
    Ok(port.is_called_at(&[point], namespace)? || original.is_called_at(&[point], namespace)?)
}

const NO_POD_FACTS: &str = "no facts about the pod here; give some with --pod";

/// The outcome of one side for a VMI.
enum VmiOutcome {
    /// The side succeeded, or failed in a way that is ignored.
    Completed {
        xml: String,
        documents: BTreeMap<String, String>,
        /// Failures that the hooks' failure policy ignores.
        ignored_failures: Vec<String>,
    },
    /// The side vetoes or fails: the VM would not start.
    Refused(String),
    /// The side failed before it read the domain, so its effect is not known. The VM would not start.
    NotRun(String),
    /// The side needs inputs that only a cluster has. Neither its effect nor whether the VM would start is known.
    Unknown(String),
}

/// The cloud-init documents before any hook.
fn documents(input: &VmiInput) -> BTreeMap<String, String> {
    let data = input.cloud_init.as_ref().ok().and_then(Option::as_ref);
    data.map(cloud_init_documents_by_name).unwrap_or_default()
}

impl VmiOutcome {
    fn unchanged(input: &VmiInput) -> Self {
        Self::Completed {
            xml: input.xml.clone(),
            documents: documents(input),
            ignored_failures: Vec::new(),
        }
    }

    fn from_hook_results(input: &VmiInput, results: HookResults) -> Self {
        if results.lacks_pod_facts {
            return Self::Unknown(NO_POD_FACTS.to_owned());
        }
        if let Some(error) = results.error {
            return Self::Refused(error.to_string());
        }
        let hooked = results.cloud_init.as_ref();
        let failures = results.runs.iter().filter_map(RunReport::ignored_failure);
        Self::Completed {
            ignored_failures: failures.collect(),
            xml: results.xml,
            documents: hooked.map_or_else(|| documents(input), cloud_init_documents_by_name),
        }
    }
}

/// Whether both sides had the same effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum ComparisonVerdict {
    Same,
    Different,
    /// Only one side refuses the VMI, or it is refused before any hook is called.
    Refused,
    /// Neither side read the domain, or the effect of one side is not known here.
    NotRun,
    /// The object is neither a VMI nor a VirtualMachine.
    NoVm,
}

/// The difference between two outcomes.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct VmiComparison {
    verdict: ComparisonVerdict,
    /// The side that refuses the VMI, and the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Changes from the original's domain to the port's.
    changes: Vec<ChangeReport>,
    /// Unified diffs of the cloud-init documents that differ, by name.
    documents: BTreeMap<String, String>,
    /// Failures that failure policies ignore. What the hook does when it works is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ignored_failures: Vec<String>,
}

impl VmiComparison {
    fn between(original: &VmiOutcome, port: &VmiOutcome) -> Self {
        match (original, port) {
            (VmiOutcome::Unknown(why), _) => {
                let reason = format!("the original was not compared: {why}");
                Self::new(ComparisonVerdict::NotRun, Some(reason))
            }
            (_, VmiOutcome::Unknown(why)) => {
                let reason = format!("the hook was not compared: {why}");
                Self::new(ComparisonVerdict::NotRun, Some(reason))
            }
            (VmiOutcome::Refused(_), VmiOutcome::Refused(why)) => Self::new(
                ComparisonVerdict::Same,
                Some(format!("both refuse it: {why}")),
            ),
            (VmiOutcome::NotRun(original), VmiOutcome::NotRun(port)) => {
                let reason = format!(
                    "neither side read the domain; the original: {original}; the hook: {port}"
                );
                Self::new(ComparisonVerdict::NotRun, Some(reason))
            }
            (VmiOutcome::NotRun(original), VmiOutcome::Refused(port)) => {
                let reason =
                    format!("the original did not run: {original}; the hook refuses it: {port}");
                Self::new(ComparisonVerdict::Refused, Some(reason))
            }
            (VmiOutcome::Refused(original), VmiOutcome::NotRun(port)) => {
                let reason =
                    format!("the original refuses it: {original}; the hook did not run: {port}");
                Self::new(ComparisonVerdict::Refused, Some(reason))
            }
            (VmiOutcome::Refused(why), VmiOutcome::Completed { .. }) => {
                let reason = format!("only the original refuses it: {why}");
                Self::new(ComparisonVerdict::Refused, Some(reason))
            }
            (VmiOutcome::NotRun(why), VmiOutcome::Completed { .. }) => {
                let reason = format!("the original did not run: {why}");
                Self::new(ComparisonVerdict::Refused, Some(reason))
            }
            (VmiOutcome::Completed { .. }, VmiOutcome::Refused(why) | VmiOutcome::NotRun(why)) => {
                let reason = format!("the hook refuses it: {why}");
                Self::new(ComparisonVerdict::Refused, Some(reason))
            }
            (
                VmiOutcome::Completed {
                    xml,
                    documents,
                    ignored_failures: of_original,
                },
                VmiOutcome::Completed {
                    xml: other_xml,
                    documents: other_documents,
                    ignored_failures: of_hook,
                },
            ) => {
                let comparison = match domain_changes(xml, other_xml) {
                    Ok(changes) => {
                        Self::from_changes(changes, document_diffs(documents, other_documents))
                    }
                    Err(reason) => Self::new(ComparisonVerdict::Different, Some(reason)),
                };
                let failed = |side: &str, failure: &String| {
                    format!("the {side} failed there (Ignore): {failure}")
                };
                let of_original = of_original.iter().map(|text| failed("original", text));
                let of_hook = of_hook.iter().map(|text| failed("hook", text));
                Self {
                    ignored_failures: of_original.chain(of_hook).collect(),
                    ..comparison
                }
            }
        }
    }

    /// The comparison if there is an original: a side with an ignored failure shows no effect that could be the same.
    fn with_original(mut self) -> Self {
        if self.verdict == ComparisonVerdict::Same && !self.ignored_failures.is_empty() {
            self.verdict = ComparisonVerdict::Different;
        }
        self
    }

    /// The result for a VMI that is refused before a hook is called.
    fn for_refused_vmi(refusal: &str) -> Self {
        let reason = format!("the VMI is refused: {refusal}");
        Self::new(ComparisonVerdict::Refused, Some(reason))
    }

    /// The result for an object that is neither a VMI nor a VirtualMachine.
    fn for_other_object(reason: String) -> Self {
        Self::new(ComparisonVerdict::NoVm, Some(reason))
    }

    /// The result for an object that cannot be read, or is in a file that cannot be read.
    fn for_unreadable_object(reason: &str) -> Self {
        Self::new(
            ComparisonVerdict::NotRun,
            Some(format!("it cannot be read: {reason}")),
        )
    }

    fn from_changes(changes: Vec<ChangeReport>, documents: BTreeMap<String, String>) -> Self {
        let verdict = match changes.is_empty() && documents.is_empty() {
            true => ComparisonVerdict::Same,
            false => ComparisonVerdict::Different,
        };
        Self {
            changes,
            documents,
            ..Self::new(verdict, None)
        }
    }

    fn new(verdict: ComparisonVerdict, reason: Option<String>) -> Self {
        Self {
            verdict,
            reason,
            changes: Vec::new(),
            documents: BTreeMap::new(),
            ignored_failures: Vec::new(),
        }
    }
}

fn domain_changes(before: &str, after: &str) -> Result<Vec<ChangeReport>, String> {
    let parse = |xml: &str| Document::parse(xml).map_err(|error| format!("not a domain: {error}"));
    let (before, after) = (parse(before)?, parse(after)?);
    Ok(diff(&before, &after).iter().map(Into::into).collect())
}

fn document_diffs(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let text = |documents: &BTreeMap<String, String>, name: &str| {
        documents.get(name).cloned().unwrap_or_default()
    };
    let names = before.keys().chain(after.keys());
    let differing = names.filter(|name| before.get(*name) != after.get(*name));
    differing
        .map(|name| {
            let diff = unified_diff(Style::default(), &text(before, name), &text(after, name));
            (name.clone(), diff)
        })
        .collect()
}

#[cfg(test)]
mod tests;
