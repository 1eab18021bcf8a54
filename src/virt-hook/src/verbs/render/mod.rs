//! `virt-hook render`: converts a VMI to domain XML with the launcher's conversion and chain.

mod rendered_domain;
mod rendered_vms;

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use serde::Serialize;

use crate::inputs::{InputArgs, ManifestPaths, VmiSource};
use crate::output::{Report, Style};
use crate::verb_failure::Failure;
use rendered_domain::{RenderedDomain, Rendering};
use rendered_vms::RenderedVms;

pub(crate) const HELP: &str = "\
Examples:
  virt-hook render --vmi vmi.yaml
  virt-hook render --vmi vmi.yaml --hook smbios.wasm --diff
  kubectl get vmi my-vm -o json | virt-hook render --vmi - --hook smbios.wasm
  virt-hook render --vmi vmi.json --host node.json --options options.json --prepared --hotplug-ports
  virt-hook render --vmi vms --hook smbios.wasm --into domains   # domains/NAMESPACE_NAME.xml for each VM

Without --options, the options of a default KubeVirt 1.9 cluster apply; --options with {} means none.
Without --host, architecture, CPUs and KVM are those of this machine, and emulation is allowed; claims beside the VM have the
volume modes that they ask for. What only a node knows, such as the addresses of GPUs, is made up, with a warning.
virt-hook host-facts writes a file for --host; a missing fact has KubeVirt's default.

Several files, a directory or a pattern give the XML of all VMs, each behind a comment that names the file and the VM. A
VirtualMachine whose VMI is in the input is left out.

Exit codes:
  0  the XML, or the difference, is on standard output, or in the directory
  1  the VMI was refused, or a hook was refused by the policy, vetoed or failed; standard error says why. Of several
     VMs, the others are rendered
  2  invalid command line, or an unusable file
  3  error of this machine";

/// Arguments of `virt-hook render`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// VirtualMachineInstances, VirtualMachines, or objects that carry one (a pool, a replica set, a Template), JSON or
    /// YAML; other objects may be beside them. `-` reads standard input. Several files, directories with files, or
    /// patterns for their names, too
    #[arg(long, value_name = "FILE_OR_DIR", num_args = 1.., required = true)]
    vmi: Vec<PathBuf>,
    /// The VMI to use, if there is one file and it has several
    #[arg(long, value_name = "[NAMESPACE/]NAME", conflicts_with = "into")]
    vmi_name: Option<String>,
    #[command(flatten)]
    args: InputArgs,
    /// A WASM hook: a module, a directory that holds modules, or a hooks directory with one
    /// sub-directory per hook. May be repeated. Hooks run at PreStart and OnDefineDomain, in the order of
    /// a pod: by priority, then by name
    #[arg(long = "hook", value_name = "DIR_OR_WASM")]
    hooks: Vec<PathBuf>,
    /// Show each run and the changed lines, instead of the whole XML
    #[arg(long, requires = "hooks")]
    diff: bool,
    /// Add what the launcher reserves for hotplug: print the first definition, with placeholder interfaces. A
    /// comment describes the second definition, which has the spare root ports
    #[arg(long, conflicts_with = "diff")]
    hotplug_ports: bool,
    /// Write the XML of each VM into this directory, as NAMESPACE_NAME.xml
    #[arg(long, value_name = "DIR", conflicts_with = "diff")]
    into: Option<PathBuf>,
}

/// The domain of a VMI, or those of several.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum RenderReport {
    One(Box<RenderedDomain>),
    Several(RenderedVms),
}

/// Converts the VMIs, and runs the hooks.
pub(crate) fn run(arguments: &Arguments) -> Result<RenderReport, Failure> {
    let rendering = Rendering {
        args: &arguments.args,
        hooks: &arguments.hooks,
        diff: arguments.diff,
        hotplug_ports: arguments.hotplug_ports,
    };
    let paths = ManifestPaths::find(&arguments.vmi).map_err(Failure::Usage)?;
    let has_hooks = !arguments.hooks.is_empty();
    let source = |file: &PathBuf| arguments.args.source(file, has_hooks);
    if let ([named], [file]) = (&arguments.vmi[..], &paths.files[..])
        && named == file
        && arguments.into.is_none()
    {
        let source = VmiSource {
            vmi_name: arguments.vmi_name.clone(),
            ..source(file)?
        };
        let rendered = rendering.render(&source.read()?, &mut None)?;
        return Ok(RenderReport::One(rendered.into()));
    }
    if arguments.vmi_name.is_some() {
        return Err(Failure::usage(anyhow!(
            "--vmi-name chooses one of the VMIs of a file: name only this file with --vmi"
        )));
    }
    let source = source(&PathBuf::new())?;
    let vms = RenderedVms::render(&paths, &source, &rendering)?;
    if let Some(directory) = &arguments.into {
        return vms.write_into(directory).map(RenderReport::Several);
    }
    Ok(RenderReport::Several(vms))
}

impl Report for RenderReport {
    fn text(&self, style: Style) -> String {
        match self {
            Self::One(domain) => domain.text(style),
            Self::Several(vms) => vms.text(style),
        }
    }

    fn complaint(&self) -> Option<String> {
        match self {
            Self::One(domain) => domain.complaint(),
            Self::Several(vms) => vms.complaint(),
        }
    }
}
