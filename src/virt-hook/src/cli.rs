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
  1  the VMI was refused, a hook refused or failed, or a replay is different; standard error
     says why
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

const SERVE_HELP: &str = "\
Examples:
  virt-hook serve --module /hooks/smbios.wasm
  virt-hook serve --module /hooks/first.wasm --module /hooks/second.wasm
  virt-hook serve --plugin smbios --module /hooks/smbios.wasm

KubeVirt calls OnDefineDomain two or three times a boot: hooks must be idempotent.
The socket is there once all modules are ready, and gone when this ends: after the launcher's
Shutdown call, or on SIGTERM.

Exit codes:
  0  it served, and was told to end
  1  serving failed; standard error says why
  2  the command line, or a module that it names, cannot be used";

const REPLAY_HELP: &str = "\
Records are what the launcher, or `virt-hook serve`, writes with --hook-record DIR: one file per
run. The hook sees the input, configuration, limits, grants, random numbers and time of day that
were recorded, and nothing else; how the VM's owner would have taken a failure does not count.

Examples:
  virt-hook replay records/1700000000-0000-OnDefineDomain-smbios.json --module smbios.wasm
  virt-hook replay RECORD --hook smbios-2.wasm
  virt-hook replay RECORD_OF_A_SIDECAR --hook its-port.wasm

Exit codes:
  0  it came to the same: the outcome with its reason, the domain, and cloud-init documents; how the
     XML is written and what was logged does not count, and is shown
  1  it came to something else; standard output shows what
  2  the command line, the record or the module cannot be used";

const WRAP_HELP: &str = "\
For languages whose compiler ends at a core module, as C's does; `cargo build --target
wasm32-wasip2` and componentize-py make components themselves.

Examples:
  virt-hook wrap build/genid.core.wasm --out genid.wasm

Exit codes:
  0  the component is written
  1  it cannot be made a hook; standard error says why
  2  the command line, or a file that it names, cannot be used";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Turn a VMI into the domain XML that libvirt would be given
    #[command(after_help = RENDER_HELP)]
    Render(Render),
    /// Be one hook sidecar, or one plugin's sidecar, of a stock KubeVirt, with any number of modules
    #[command(after_help = SERVE_HELP)]
    Serve(Serve),
    /// Run a recorded run of a hook again, and show what is different about it
    #[command(after_help = REPLAY_HELP)]
    Replay(Replay),
    /// Make a hook of a core WebAssembly module, as clang makes them
    #[command(after_help = WRAP_HELP)]
    Wrap(Wrap),
}

/// What `wrap` is given.
#[derive(Debug, Args)]
pub(crate) struct Wrap {
    /// The core module
    #[arg(value_name = "CORE_WASM")]
    pub(crate) core: PathBuf,
    /// Where the component belongs; it appears there whole, by renaming
    #[arg(long, short, value_name = "WASM")]
    pub(crate) out: PathBuf,
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

/// What `serve` is given.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// A WASM hook: a module, or a directory that holds modules. May be repeated; hooks run by
    /// priority, and in the order given here where priorities are the same
    #[arg(long = "module", value_name = "PATH", required = true)]
    pub(crate) modules: Vec<PathBuf>,
    /// Be the sidecar of this Plugin (its metadata.name) instead of a hook sidecar
    #[arg(long, value_name = "NAME")]
    pub(crate) plugin: Option<String>,
    /// Where the socket belongs [default: /var/run/kubevirt-hooks, with --plugin
    /// /var/run/kubevirt-plugin/NAME]
    #[arg(long, value_name = "DIR")]
    pub(crate) hooks_dir: Option<PathBuf>,
    /// The socket's file name [default: virt-hook-$CONTAINER_NAME.sock, with --plugin
    /// virt-hook.sock]
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Option<String>,
    /// What modules may do: a policy file, or the policy itself when it begins with `{` or has more
    /// than one line. /etc/virt-hook/policy.yaml when left out, if there is one
    #[arg(long, value_name = "FILE_OR_YAML", env = "VIRT_HOOK_POLICY")]
    pub(crate) policy: Option<String>,
    /// The VM's namespace, for rules of the policy that name namespaces; others hold without it
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) namespace: String,
    /// Keep a record of every run in this directory, for `replay`; cloud-init data is left out
    #[arg(long, value_name = "DIR", env = "VIRT_HOOK_RECORD")]
    pub(crate) hook_record: Option<PathBuf>,
    /// Directory of this image with modules that `compile` made ready for it
    /// [default: /usr/share/virt-hook/hook-artifacts, if it is there]
    #[arg(long, value_name = "DIR", env = "VIRT_HOOK_ARTIFACTS")]
    pub(crate) hook_artifacts: Option<PathBuf>,
}

/// What `replay` is given.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The record, a JSON file
    #[arg(value_name = "RECORD")]
    pub(crate) record: PathBuf,
    /// The module that was recorded; its sha256 must be the recorded one
    #[arg(long, value_name = "WASM", conflicts_with = "hook")]
    pub(crate) module: Option<PathBuf>,
    /// Another module that is to do the same: a new version, or the port of a gRPC sidecar
    #[arg(long, value_name = "NEW_WASM")]
    pub(crate) hook: Option<PathBuf>,
}
