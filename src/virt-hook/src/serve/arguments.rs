//! The command line of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::host_version_options::HostVersionOptions;

pub(crate) const HELP: &str = "\
Examples:
  virt-hook serve --module /hooks/smbios.wasm
  virt-hook serve --module /hooks/first.wasm --module /hooks/second.wasm
  virt-hook serve --plugin smbios --module /hooks/smbios.wasm

KubeVirt calls OnDefineDomain two or three times a boot: hooks must be idempotent.
The socket is there once all modules are ready, and gone when this ends: after the launcher's
Shutdown call, or on SIGTERM.

Exit codes:
  0  it served, and was stopped by a signal
  1  serving failed; standard error says why
  2  the command line, or a module that it names, cannot be used
  3  this machine could not do it";

/// Arguments of `virt-hook serve`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
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
    /// hook.sock]
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Option<String>,
    /// What modules may do: a policy file, or the policy itself when it begins with `{` or has more
    /// than one line. /etc/virt-hook/policy.yaml when left out, if there is one
    #[arg(long, value_name = "FILE_OR_YAML", env = "VIRT_HOOK_POLICY")]
    pub(crate) policy: Option<String>,
    /// The VM's namespace; needed if rules of the policy name namespaces. VMIs of other namespaces are refused
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) namespace: String,
    /// Keep a record of every run in this directory, for `replay`; cloud-init data is left out
    #[arg(long, value_name = "DIR", env = "VIRT_HOOK_RECORD")]
    pub(crate) hook_record: Option<PathBuf>,
    /// Directory with the pod's annotations and labels, files of the downward API, for hooks that read them
    #[arg(
        long,
        value_name = "DIR",
        env = "VIRT_HOOK_POD_INFO",
        default_value = "/etc/virt-hook/pod-info"
    )]
    pub(crate) pod_info_dir: PathBuf,
    /// Directory of this image with modules that `compile` made ready for it
    /// [default: /usr/share/virt-hook/hook-artifacts, if it is there]
    #[arg(long, value_name = "DIR", env = "VIRT_HOOK_ARTIFACTS")]
    pub(crate) hook_artifacts: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) versions: HostVersionOptions,
    /// Serve metrics for Prometheus at http://ADDRESS/metrics, such as 0.0.0.0:9464; without encryption and
    /// authentication
    #[arg(long, value_name = "ADDRESS", env = "VIRT_HOOK_METRICS")]
    pub(crate) metrics: Option<SocketAddr>,
}
