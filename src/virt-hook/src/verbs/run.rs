//! `virt-hook run`: one hook point on given inputs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use hook_host::{HookInfo, HookPoint, MigrationParameters, Reason};
use serde::Serialize;

use crate::cloud_init_documents_by_name::cloud_init_documents_by_name;
use crate::collected_hooks::{CollectedHooks, HookResults};
use crate::inputs::{DomainReason, InputArgs, VmiArgs, VmiInput, VmiSource};
use crate::module_chain::HookOptions;
use crate::module_discovery;
use crate::output::{Report, RunReport, Style, TerminalEscaped, unified_diff};
use crate::verb_failure::Failure;

pub(crate) const HELP: &str = "\
Examples:
  virt-hook run smbios.wasm --vmi vmi.yaml
  virt-hook run smbios.wasm --vmi vmi.yaml --domain dumped.xml --json
  virt-hook run smbios.wasm --vmi vmi.yaml --domain dumped.xml --arriving
  virt-hook run cloud-init.wasm --vmi vmi.yaml --point PreCloudInitIso
  virt-hook run team.wasm --vmi vmi.yaml --point PreStart --policy policy.yaml
  virt-hook run migration-tuning.wasm --vmi vmi.yaml --point PreMigrationSource --parameter bandwidth=1048576
  virt-hook run disk-tuning.wasm --vmi vmi.yaml --device hotplugged-disk.xml

The hook.yaml beside the module has the same effect as in a pod.

Exit codes:
  0  the hook succeeded; standard output shows its changes
  1  the VMI was refused, or the hook was refused by the policy, vetoed or failed; standard output shows the run
  2  invalid command line, or an unusable file
  3  error of this machine";

/// Arguments of `virt-hook run`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The hook: a module, or a directory that holds modules
    #[arg(value_name = "DIR_OR_WASM")]
    hook: PathBuf,
    #[command(flatten)]
    vmi: VmiArgs,
    #[command(flatten)]
    args: InputArgs,
    /// A domain XML to use instead of the converted VMI
    #[arg(long, value_name = "FILE", conflicts_with_all = ["options", "host", "prepared"])]
    domain: Option<PathBuf>,
    /// The XML of a device that is attached to the running VM, for OnAttachDevice
    #[arg(long, value_name = "FILE", conflicts_with = "parameters")]
    device: Option<PathBuf>,
    /// A migration parameter, for PreMigrationSource; others have KubeVirt's default. May be repeated
    #[arg(long = "parameter", value_name = "NAME=VALUE")]
    parameters: Vec<String>,
    /// The hook point to run; required if the hook has several
    #[arg(long, value_name = "HOOK_POINT", value_parser = hook_points())]
    point: Option<HookPoint>,
    /// Why the domain is created; only for the hook points of a boot
    #[arg(long, value_enum, default_value_t, value_name = "REASON")]
    reason: DomainReason,
    /// Treat --domain as an incoming migration: a change that libvirt would refuse then is a failure of the hook
    #[arg(long, requires = "domain", conflicts_with_all = ["reason", "device", "parameters"])]
    arriving: bool,
}

/// The result of a hook point.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunResult {
    /// KubeVirt's name of the hook point.
    hook_point: &'static str,
    /// Every run, in order; empty if the VMI has no cloud-init data for which the hook would be called.
    runs: Vec<RunReport>,
    /// The domain after OnDefineDomain.
    xml: Option<String>,
    /// The device after OnAttachDevice.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    /// The parameters after PreMigrationSource.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<BTreeMap<String, String>>,
    /// The documents after PreCloudInitIso, by name.
    documents: Option<BTreeMap<String, String>>,
    /// The reason why the VM would not start.
    error: Option<String>,
    #[serde(skip)]
    documents_before: BTreeMap<String, String>,
}

/// Runs the hook.
pub(crate) fn run(arguments: &Arguments) -> Result<RunResult, Failure> {
    let source = VmiSource {
        vmi_name: arguments.vmi.vmi_name.clone(),
        domain: arguments.domain.clone(),
        device: arguments.device.clone(),
        migration: migration(&arguments.parameters).map_err(Failure::Usage)?,
        reason: match arguments.arriving {
            true => Reason::MigrationTarget,
            false => arguments.reason.into(),
        },
        is_incoming: arguments.arriving,
        ..arguments.args.source(&arguments.vmi.vmi, true)?
    };
    let input = source.read()?;
    let modules =
        module_discovery::find(std::slice::from_ref(&arguments.hook)).map_err(Failure::Usage)?;
    let options = HookOptions {
        policy: arguments.args.policy(),
        pod: arguments.args.pod(),
        namespace: input.invocation.namespace.clone(),
        ..HookOptions::default()
    };
    let hooks = CollectedHooks::collect(&modules, options)?;
    let point = arguments.point(&hooks.hooks()).map_err(Failure::Usage)?;
    let results = hooks.run(&input, &[point])?;
    Ok(RunResult::new(point, &input, results))
}

impl Arguments {
    /// The hook point of `--point`, the one that the inputs are for, or the only one that the hook subscribes to.
    fn point(&self, infos: &[HookInfo]) -> anyhow::Result<HookPoint> {
        let option_and_point = if self.device.is_some() {
            Some(("--device", HookPoint::OnAttachDevice))
        } else if self.parameters.is_empty() {
            None
        } else {
            Some(("--parameter", HookPoint::PreMigrationSource))
        };
        let of_input = option_and_point.map(|(_, point)| point);
        let point = point(self.point.or(of_input), infos)?;
        match option_and_point {
            Some((option, only)) if only != point => {
                Err(anyhow!("{option} is for {only}: leave --point out"))
            }
            None if point == HookPoint::OnAttachDevice => Err(anyhow!(
                "the hook point OnAttachDevice needs a device: give its XML with --device"
            )),
            _ => Ok(point),
        }
    }
}

/// The requested hook point, or the only one that the hook subscribes to.
fn point(requested: Option<HookPoint>, infos: &[HookInfo]) -> anyhow::Result<HookPoint> {
    let mut hook_points: Vec<HookPoint> = infos
        .iter()
        .flat_map(|info| {
            info.hook_points
                .iter()
                .map(|subscription| subscription.point)
        })
        .collect();
    hook_points.sort();
    hook_points.dedup();
    let names: Vec<&str> = hook_points.iter().map(|point| point.name()).collect();
    match (requested, &hook_points[..]) {
        (Some(requested), _) if hook_points.contains(&requested) => Ok(requested),
        (_, []) => Err(anyhow!("the hook asks for no hook point at all")),
        (Some(requested), _) => Err(anyhow!(
            "the hook is never called at {requested}, only at [{}]: give one of these with --point",
            names.join(", ")
        )),
        (None, [only]) => Ok(*only),
        (None, _) => Err(anyhow!(
            "the hook is called at {}: give one of these with --point",
            names.join(", ")
        )),
    }
}

impl RunResult {
    fn new(point: HookPoint, input: &VmiInput, mut results: HookResults) -> Self {
        let before = input.cloud_init.clone().ok().flatten();
        let has_succeeded = results.error.is_none();
        Self {
            hook_point: point.name(),
            xml: (has_succeeded && point == HookPoint::OnDefineDomain).then_some(results.xml),
            device: results.devices.pop().filter(|_| has_succeeded),
            parameters: (results.migration.as_ref().filter(|_| has_succeeded))
                .map(|parameters| parameters.to_texts().into_iter().collect()),
            documents: results
                .cloud_init
                .as_ref()
                .map(cloud_init_documents_by_name),
            documents_before: before
                .as_ref()
                .map(cloud_init_documents_by_name)
                .unwrap_or_default(),
            error: results.error.map(|error| error.to_string()),
            runs: results.runs,
        }
    }
}

impl Report for RunResult {
    fn text(&self, style: Style) -> String {
        match &self.error {
            Some(error) if self.runs.is_empty() => {
                return format!("not called: {}", TerminalEscaped(error));
            }
            None if self.runs.is_empty() => {
                return "not called: the VMI has no cloud-init data".to_owned();
            }
            _ => {}
        }
        let mut text: String = self.runs.iter().map(|run| run.text(style)).collect();
        for (name, after) in self.documents.iter().flatten() {
            let before = self.documents_before.get(name).map_or("", String::as_str);
            let diff = unified_diff(style, before, after);
            if !diff.is_empty() {
                text += &format!("{}\n{diff}", style.strong(name));
            }
        }
        text
    }

    fn complaint(&self) -> Option<String> {
        let failed = self.runs.iter().find(|run| !run.is_ok());
        let failed = failed.filter(|run| run.failure_policy == "Fail");
        self.error
            .clone()
            .or_else(|| failed?.reason.clone())
            .map(|error| error.replace('\n', " "))
    }
}

/// KubeVirt's defaults with the parameters of the command line.
fn migration(options: &[String]) -> anyhow::Result<MigrationParameters> {
    let texts = options.iter().map(|text| {
        let parts = text.split_once('=');
        let parts = parts.ok_or_else(|| anyhow!("--parameter {text}: it is NAME=VALUE"))?;
        Ok((parts.0.to_owned(), parts.1.to_owned()))
    });
    let texts: anyhow::Result<Vec<_>> = texts.collect();
    let parameters = MigrationParameters::default().with_texts(&texts?);
    parameters.map_err(|error| anyhow!("--parameter: {error}"))
}

/// The hook points by their names, which shells complete.
fn hook_points() -> impl TypedValueParser<Value = HookPoint> {
    let names = PossibleValuesParser::new(HookPoint::ALL.map(HookPoint::name));
    names.try_map(|name| HookPoint::from_name(&name).ok_or("there is no such hook point"))
}
