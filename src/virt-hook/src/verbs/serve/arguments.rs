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

KubeVirt calls OnDefineDomain two or three times per boot: hooks must be idempotent.
The socket appears when all modules are ready. It is removed when this program ends: after the
launcher's Shutdown call, or on SIGTERM.

Exit codes:
  0  ended by the launcher's Shutdown call or by a signal
  1  serving failed; standard error says why
  2  invalid command line, or an unusable module
  3  error of this machine";

/// Arguments of `virt-hook serve`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A WASM hook: a module, or a directory that holds modules. May be repeated. Hooks run by priority,
    /// and those of the same priority in the order given here
    #[arg(long = "module", value_name = "PATH", required = true)]
    pub(crate) modules: Vec<PathBuf>,
    /// Serve as the sidecar of this Plugin (its metadata.name), instead of as a hook sidecar
    #[arg(long, value_name = "NAME")]
    pub(crate) plugin: Option<String>,
    /// Directory of the socket [default: /var/run/kubevirt-hooks, with --plugin
    /// /var/run/kubevirt-plugin/NAME]
    #[arg(long, value_name = "DIR")]
    pub(crate) hooks_dir: Option<PathBuf>,
    /// The socket's file name [default: virt-hook-$CONTAINER_NAME.sock, with --plugin
    /// hook.sock]
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Option<String>,
    /// The operator's policy: a file, or the policy itself if the value begins with `{` or has several
    /// lines [default: /etc/virt-hook/policy.yaml, if it exists]
    #[arg(long, value_name = "FILE_OR_YAML", env = "VIRT_HOOK_POLICY")]
    pub(crate) policy: Option<String>,
    /// The VM's namespace; required if rules of the policy name namespaces. VMIs of other namespaces are refused
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) namespace: String,
    /// Compile modules also where the kernel or the container does not let their compiler be confined
    #[arg(long, env = "VIRT_HOOK_COMPILE_UNCONFINED")]
    pub(crate) compile_unconfined: bool,
    /// Write a record of every run into this directory, for `replay`; without cloud-init data
    #[arg(long, value_name = "DIR", env = "VIRT_HOOK_RECORD")]
    pub(crate) hook_record: Option<PathBuf>,
    /// Directory with the pod's annotations and labels, files of the downward API, for hooks that read them
    #[arg(
        long,
        value_name = "DIR",
        env = "VIRT_HOOK_POD_INFO_DIR",
        default_value = "/etc/virt-hook/pod-info"
    )]
    pub(crate) pod_info_dir: PathBuf,
    /// Directory of this image with the artifacts of `virt-hook compile`
    /// [default: /usr/share/virt-hook/hook-artifacts, if it exists]
    #[arg(long, value_name = "DIR", env = "VIRT_HOOK_ARTIFACTS")]
    pub(crate) hook_artifacts: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) versions: HostVersionOptions,
    /// Serve metrics for Prometheus at http://ADDRESS/metrics, without encryption and authentication;
    /// ADDRESS is such as 0.0.0.0:9464
    #[arg(long, value_name = "ADDRESS", env = "VIRT_HOOK_METRICS")]
    pub(crate) metrics: Option<SocketAddr>,
}
