//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Work with hooks of KubeVirt virtual machines, without a cluster.
#[derive(Debug, Parser)]
#[command(name = "virt-hook", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Show on standard error what hooks log and what each changed
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done; the result is on standard output
  1  the VMI was refused, or a hook refused or failed; standard error says why
  2  the command line, or a file that it names, cannot be used";

const RENDER_HELP: &str = "\
Examples:
  virt-hook render --vmi vmi.yaml
  kubectl get vmi my-vm -o json | virt-hook render --vmi - --hook smbios.wasm
  virt-hook render --vmi vmi.json --host node.json --options options.json --prepared

Host facts are a JSON object; what it leaves out has KubeVirt's default:
  {\"architecture\": \"amd64\", \"allowEmulation\": true, \"kvmAvailable\": false, \"cpuset\": [0, 1],
   \"ovmfPath\": \"/usr/share/OVMF\", \"containerDiskFormat\": \"qcow2\", \"directIO\": true}
Without --host this machine is looked at, and emulation is allowed.

Exit codes:
  0  the XML is on standard output
  1  the VMI was refused, or a hook refused or failed; standard error says why
  2  the command line, or a file that it names, cannot be used";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Turn a VMI into the domain XML that libvirt would be given
    #[command(after_help = RENDER_HELP)]
    Render(Render),
}

/// What `render` is given.
#[derive(Debug, Args)]
pub(crate) struct Render {
    /// The VirtualMachineInstance, JSON or YAML; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) vmi: PathBuf,
    /// VirtualMachineOptions as virt-handler sends them, proto JSON; none when left out
    #[arg(long, value_name = "FILE")]
    pub(crate) options: Option<PathBuf>,
    /// What the launcher would find on the node, JSON; this machine when left out
    #[arg(long, value_name = "FILE")]
    pub(crate) host: Option<PathBuf>,
    /// A WASM hook: a module, a directory that holds modules, or a hooks directory with one
    /// sub-directory per hook. May be repeated; hooks run in the order they would in a pod, by
    /// priority and then by name, each at PreStart and OnDefineDomain
    #[arg(long = "hook", value_name = "DIR_OR_WASM")]
    pub(crate) hooks: Vec<PathBuf>,
    /// Settle the disks' cache and IO modes too, as just before a start (before the hooks run)
    #[arg(long)]
    pub(crate) prepared: bool,
}
