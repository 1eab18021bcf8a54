//! `virt-hook run`: one hook point on given inputs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use hook_host::{HookInfo, HookPoint, Reason};
use serde::Serialize;

use crate::documents;
use crate::failure::Failure;
use crate::hooks::{Hooks, Story};
use crate::inputs::{Given, Source, Subject};
use crate::modules::{self, Terms};
use crate::output::{Report, RunReport, Style, lines};

pub(crate) const HELP: &str = "\
Examples:
  virt-hook run smbios.wasm --vmi vmi.yaml
  virt-hook run smbios.wasm --vmi vmi.yaml --domain dumped.xml --json
  virt-hook run cloud-init.wasm --vmi vmi.yaml --point PreCloudInitIso
  virt-hook run team.wasm --vmi vmi.yaml --point PreStart --policy policy.yaml

The hook's own hook.yaml, beside the module, counts as it does in a pod.

Exit codes:
  0  the hook did its work; standard output shows it
  1  the VMI was refused, or the hook refused or failed; standard output shows the run
  2  the command line, or a file that it names, cannot be used
  3  this machine could not do it";

/// What `run` is given.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The hook: a module, or a directory that holds modules
    #[arg(value_name = "DIR_OR_WASM")]
    hook: PathBuf,
    #[command(flatten)]
    given: Given,
    /// A domain XML instead of the VMI's conversion
    #[arg(long, value_name = "FILE", conflicts_with_all = ["options", "host", "prepared"])]
    domain: Option<PathBuf>,
    /// Where the hook is called; needed when it asks for several hook points
    #[arg(long, value_name = "HOOK_POINT", value_parser = point_from)]
    point: Option<HookPoint>,
    /// Why the launcher would call it
    #[arg(long, value_enum, default_value_t, value_name = "REASON")]
    reason: Why,
}

/// [`Reason`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Why {
    /// The virtual machine starts here
    #[default]
    Boot,
    /// It arrives from another node
    MigrationTarget,
    /// The launcher ends
    Shutdown,
}

/// A hook point's run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ran {
    /// KubeVirt's name of the hook point.
    hook_point: &'static str,
    /// Every run, in order; none when the VMI has no cloud-init data to call the hook for.
    runs: Vec<RunReport>,
    /// After OnDefineDomain: the domain.
    xml: Option<String>,
    /// After PreCloudInitIso: the documents.
    documents: Option<BTreeMap<String, String>>,
    /// Why the virtual machine would not start.
    error: Option<String>,
    #[serde(skip)]
    before: BTreeMap<String, String>,
}

/// Runs the hook.
pub(crate) fn run(arguments: &Arguments) -> Result<Ran, Failure> {
    let source = Source {
        given: arguments.given.clone(),
        domain: arguments.domain.clone(),
        reason: arguments.reason.into(),
        ..Source::default()
    };
    let subject = source.read()?;
    let found = modules::find(std::slice::from_ref(&arguments.hook)).map_err(Failure::Usage)?;
    let terms = Terms {
        policy: arguments.given.policy(),
        namespace: subject.invocation.namespace.clone(),
        ..Terms::default()
    };
    let hooks = Hooks::collect(&found, terms)?;
    let point = point(arguments.point, &hooks.infos()).map_err(Failure::Usage)?;
    let story = hooks.run(&subject, &[point])?;
    Ok(Ran::of(point, &subject, story))
}

/// The one that was asked for, or the only one there is.
fn point(asked: Option<HookPoint>, infos: &[HookInfo]) -> anyhow::Result<HookPoint> {
    let mut known: Vec<HookPoint> = infos
        .iter()
        .flat_map(|info| {
            info.hook_points
                .iter()
                .map(|subscription| subscription.point)
        })
        .collect();
    known.sort();
    known.dedup();
    let names: Vec<&str> = known.iter().map(|point| point.name()).collect();
    match (asked, &known[..]) {
        (Some(asked), _) if known.contains(&asked) => Ok(asked),
        (Some(asked), _) => Err(anyhow!(
            "the hook is never called at {asked}, only at [{}]: give one of these with --point",
            names.join(", ")
        )),
        (None, [only]) => Ok(*only),
        (None, []) => Err(anyhow!("the hook asks for no hook point at all")),
        (None, _) => Err(anyhow!(
            "the hook is called at {}: give one of these with --point",
            names.join(", ")
        )),
    }
}

impl Ran {
    fn of(point: HookPoint, subject: &Subject, story: Story) -> Self {
        let before = subject.cloud_init.clone().ok().flatten();
        let is_done = story.error.is_none();
        Self {
            hook_point: point.name(),
            xml: (is_done && point == HookPoint::OnDefineDomain).then_some(story.xml),
            documents: story.cloud_init.as_ref().map(documents::of),
            before: before.as_ref().map(documents::of).unwrap_or_default(),
            error: story.error.map(|error| error.to_string()),
            runs: story.runs,
        }
    }
}

impl Report for Ran {
    fn text(&self, style: Style) -> String {
        if self.runs.is_empty() {
            return "not called: the VMI has no cloud-init data".to_owned();
        }
        let mut text: String = self.runs.iter().map(|run| run.text(style)).collect();
        for (name, after) in self.documents.iter().flatten() {
            let before = self.before.get(name).map_or("", String::as_str);
            let diff = lines(style, before, after);
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

fn point_from(name: &str) -> Result<HookPoint, String> {
    HookPoint::from_name(name).ok_or_else(|| {
        let names = HookPoint::ALL.map(HookPoint::name);
        format!("there are {}", names.join(", "))
    })
}

impl From<Why> for Reason {
    fn from(why: Why) -> Self {
        match why {
            Why::Boot => Self::Boot,
            Why::MigrationTarget => Self::MigrationTarget,
            Why::Shutdown => Self::Shutdown,
        }
    }
}
