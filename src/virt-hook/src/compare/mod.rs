//! `virt-hook compare`: a port against its original, or hooks against none, over many VMIs.

mod compared_hook;
mod sidecar_shim_script;
mod vmi_comparison;
mod vmi_files;

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde::Serialize;

use crate::exit_codes::{Failure, NOT_COMPARED, REFUSED};
use crate::inputs::NamedVmi;
use crate::output::{Plain, Report, Style, changes};
use compared_hook::ComparedHook;
use vmi_comparison::{Verdict, VmiComparison};

/// The most VMIs that a line names.
const MAX_NAMES: usize = 4;

pub(crate) const HELP: &str = "\
With --original: whether a port does what its original does. The original is a module, a script as
KubeVirt's sidecar-shim runs it (`SCRIPT --vmi JSON --domain XML`), or the socket of a running hook
sidecar. Compared is the content of the XML, not its notation, and the cloud-init documents (a script
has none). Two refusals are the same, whatever their words; but not if neither side ran: a script
that prints nothing and ends with 2, 126 or 127, and a module that the policy does not let run.

Without --original: what the hooks change, VMI by VMI, before they are rolled out.

VMIs come from files with one or with many (`kubectl get vmi -A -o json`), and from folders of such.

Examples:
  virt-hook compare --hook port.wasm --original ./onDefineDomain --vmi vmi.yaml
  virt-hook compare --hook port.wasm --original /run/hooks/old.sock --vmi-dir dump
  kubectl get vmi -A -o json > dump/all.json; virt-hook compare --hook new.wasm --vmi-dir dump

Exit codes:
  0  the same effect on every VMI; without --original, no hook refused or failed
  1  another effect; standard output shows the difference
  2  the command line, or a file that it names, cannot be used
  3  this machine could not do it
  4  neither side ran on some of the VMIs, and on the others the effect is the same";

/// What `compare` is given.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The port, or the hooks to be rolled out: as for render. May be repeated
    #[arg(long = "hook", value_name = "DIR_OR_WASM", required = true)]
    hooks: Vec<PathBuf>,
    /// What the port is to do: a module, a sidecar-shim script, or a sidecar's socket
    #[arg(long, value_name = "FILE")]
    original: Option<PathBuf>,
    /// A file with VMIs. May be repeated
    #[arg(long, value_name = "FILE", required_unless_present = "vmi_dir")]
    vmi: Vec<PathBuf>,
    /// A folder with files of VMIs: *.yaml, *.yml, *.json
    #[arg(long, value_name = "DIR")]
    vmi_dir: Option<PathBuf>,
    /// The operator's policy, whose rules hold in each VMI's namespace; without one, modules are granted what they declare
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// The effects on all VMIs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CompareReport {
    vmis: usize,
    same: usize,
    different: usize,
    /// VMIs on which neither side ran.
    not_run: usize,
    /// VMIs with the same difference; what differs least often comes last.
    groups: Vec<Group>,
    #[serde(skip)]
    is_preview: bool,
}

/// VMIs with the same effect.
#[derive(Debug, Serialize)]
struct Group {
    #[serde(flatten)]
    effect: VmiComparison,
    vmis: Vec<String>,
}

/// Runs both on every VMI.
pub(crate) fn run(arguments: &Arguments) -> Result<CompareReport, Failure> {
    let vmis = vmi_files::read(&arguments.vmi, arguments.vmi_dir.as_deref())?;
    let temp_dir = tempfile::tempdir()
        .context("making a temporary directory")
        .map_err(Failure::Machine)?;
    let policy = arguments.policy.as_deref();
    let mut port =
        ComparedHook::of_modules(&arguments.hooks, policy, &temp_dir.path().join("port"))?;
    let mut original = match &arguments.original {
        Some(path) => ComparedHook::of(path, policy, &temp_dir.path().join("original"))?,
        None => ComparedHook::Nothing,
    };
    let points = port.points(&original);
    let mut groups: Vec<Group> = Vec::new();
    for NamedVmi { name, input } in vmis {
        let effect = match input {
            Ok(input) => {
                VmiComparison::between(&original.run(&input, &points)?, &port.run(&input, &points)?)
            }
            Err(Failure::Refused(refusal)) => VmiComparison::of_refused_vmi(&refusal),
            Err(failure) => return Err(failure),
        };
        match groups.iter_mut().find(|group| group.effect == effect) {
            Some(group) => group.vmis.push(name),
            None => groups.push(Group {
                effect,
                vmis: vec![name],
            }),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.vmis.len()));
    Ok(CompareReport::of(groups, arguments.original.is_none()))
}

impl CompareReport {
    fn of(groups: Vec<Group>, is_preview: bool) -> Self {
        let count = |is_wanted: &dyn Fn(&VmiComparison) -> bool| {
            let wanted = groups.iter().filter(|group| is_wanted(&group.effect));
            wanted.map(|group| group.vmis.len()).sum()
        };
        Self {
            vmis: count(&|_| true),
            same: count(&|effect| effect.verdict == Verdict::Same),
            different: count(&|effect| effect.verdict == Verdict::Different),
            not_run: count(&|effect| effect.verdict == Verdict::NotRun),
            groups,
            is_preview,
        }
    }

    /// VMIs that only one side refuses, or that no hook is called for.
    fn refused(&self) -> usize {
        self.vmis - self.same - self.different - self.not_run
    }

    fn word(&self, verdict: Verdict, style: Style) -> String {
        match (verdict, self.is_preview) {
            (Verdict::Same, false) => style.good("same"),
            (Verdict::Same, true) => style.good("unchanged"),
            (Verdict::Different, false) => style.bad("DIFFERENT"),
            (Verdict::Different, true) => style.doubtful("changed"),
            (Verdict::Refused, _) => style.bad("REFUSED"),
            (Verdict::NotRun, _) => style.bad("NOT RUN"),
        }
    }
}

impl Report for CompareReport {
    fn text(&self, style: Style) -> String {
        let mut text = String::new();
        for Group { effect, vmis } in &self.groups {
            let word = self.word(effect.verdict, style);
            let (shown, more) = vmis.split_at(vmis.len().min(MAX_NAMES));
            let more = match more.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            text += &format!("{word}  {}{more}\n", Plain(&shown.join(", ")));
            if let Some(reason) = &effect.reason {
                text += &format!("  {}\n", Plain(reason));
            }
            changes(&mut text, style, &effect.changes);
            for (name, diff) in &effect.documents {
                text += &format!("  {name}\n");
                text.extend(diff.lines().map(|line| format!("    {line}\n")));
            }
        }
        let (same, different) = match self.is_preview {
            false => ("same", "different"),
            true => ("unchanged", "changed"),
        };
        let not_run = match self.not_run {
            0 => String::new(),
            count => format!(", {count} not run"),
        };
        text + &format!(
            "\n{} VMIs: {} {same}, {} {different}, {} refused{not_run}\n",
            self.vmis,
            self.same,
            self.different,
            self.refused()
        )
    }

    fn complaint(&self) -> Option<String> {
        let (vmis, refused, not_run) = (self.vmis, self.refused(), self.not_run);
        match (self.is_preview, refused + self.different) {
            (false, 0) if not_run > 0 => Some(format!(
                "neither the original nor the hook ran on {not_run} of {vmis} VMIs: nothing was compared there"
            )),
            (false, 0) => None,
            (false, unequal) => Some(format!(
                "the effect is not the same on {unequal} of {vmis} VMIs"
            )),
            (true, _) if refused > 0 => Some(format!("{refused} of {vmis} VMIs would not start")),
            (true, _) => None,
        }
    }

    fn negative_code(&self) -> u8 {
        match self.refused() + self.different {
            0 => NOT_COMPARED,
            _ => REFUSED,
        }
    }
}
