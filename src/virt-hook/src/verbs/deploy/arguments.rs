//! The command line of `deploy`.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use oci_registry::Reference;
use serde::Serialize;

use crate::verb_failure::Failure;

pub(crate) const HELP: &str = "\
Apply the manifests with `kubectl apply --server-side`: without --server-side, kubectl copies the
ConfigMap into an annotation, which is too small for most modules. With --vm the output includes the VM
with the annotations that request the hook; without --vm a comment has the annotations. A comment at the
end has the minimal operator's policy that the module needs, as `inspect` prints it.

  configmap  the module in a ConfigMap, mounted by the admission policies; at most 1 MiB
  image      the module in an image of `virt-hook image`, mounted by the admission policies
  plugin     a Plugin of KubeVirt v1.9 and an admission policy that mounts the image for it; for all
             VMs, or those of --label and --for-namespace
  sidecar    the module in a ConfigMap, served by `virt-hook serve` beside KubeVirt's own launcher

Examples:
  virt-hook deploy smbios.wasm --as configmap --vm vm.yaml | kubectl apply --server-side -f -
  virt-hook deploy smbios.wasm --as image --image registry.example/hooks:1
  virt-hook deploy smbios.wasm --as plugin --image registry.example/hooks:1 --label tier=gpu
  virt-hook deploy smbios.wasm --as sidecar --image registry.example/virt-hook:0.1 --vm vm.yaml

Exit codes:
  0  the manifests are on standard output
  1  the module does not match its hook.yaml, is too large for a ConfigMap, has no hook point that this
     route calls, or needs --allow-dangerous as a sidecar; standard error says why
  2  invalid command line, or an unusable file: the module is not a hook
  3  error of this machine";

/// Arguments of `virt-hook deploy`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The module, or the directory that holds it
    #[arg(value_name = "WASM_OR_DIR")]
    pub(super) module: PathBuf,
    /// How the module reaches the VM
    #[arg(long = "as", value_name = "ROUTE")]
    pub(super) route: Route,
    /// Image with the module (for `image` and `plugin`), or with virt-hook (for `sidecar`)
    #[arg(long, value_name = "REFERENCE")]
    pub(super) image: Option<String>,
    /// Manifest of a VirtualMachine or VirtualMachineInstance, to print with the annotations;
    /// `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(super) vm: Option<PathBuf>,
    /// The VM's namespace, and that of the ConfigMap
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(super) namespace: String,
    /// With `plugin`: only VMs with this label
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) label: Option<String>,
    /// With `plugin`: only VMs of this namespace
    #[arg(long, value_name = "NAME")]
    pub(super) for_namespace: Option<String>,
    /// The hook's name in the cluster [default: the name of the file, or of the directory]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// The module's hook.yaml [default: the one beside the module]
    #[arg(long, value_name = "FILE")]
    pub(super) hook_yaml: Option<PathBuf>,
    /// With `image`: mount the hook at `/hooks`, where the launcher waits for it, instead of at `/standing`
    #[arg(long)]
    pub(super) counted: bool,
    /// With `sidecar`: also grant the dangerous paths and the directories that the module declares
    #[arg(long)]
    pub(super) allow_dangerous: bool,
    /// Prefix of the annotations of the cluster's admission policies
    #[arg(long, value_name = "DOMAIN", default_value = "wasm-hooks.example.com")]
    pub(super) domain: String,
    /// With `plugin`: API version of the admission policies; v1beta1 before Kubernetes 1.36
    #[arg(long, value_name = "VERSION", default_value = "v1", value_parser = ["v1", "v1beta1"])]
    pub(super) api_version: String,
}

/// How a module gets to a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Route {
    Configmap,
    Image,
    Plugin,
    Sidecar,
}

impl Arguments {
    /// Checks that the route takes the options. Returns the image.
    pub(super) fn checked_image(&self) -> Result<Option<String>, Failure> {
        let refuse = |text: &str| Err(Failure::usage(anyhow!("{text}")));
        let Arguments { route, image, .. } = self;
        match (route, image) {
            _ if self.counted && *route != Route::Image => {
                refuse("--counted is for --as image: hooks of the other routes are not counted")
            }
            _ if self.allow_dangerous && *route != Route::Sidecar => refuse(
                "--allow-dangerous is for --as sidecar: on the other routes the policy of the launcher's image grants",
            ),
            (Route::Plugin, _) if self.vm.is_some() => refuse(
                "--as plugin takes no --vm: a Plugin is for all VMs, or those of --label and --for-namespace",
            ),
            (Route::Configmap | Route::Image | Route::Sidecar, _)
                if self.label.is_some() || self.for_namespace.is_some() =>
            {
                refuse(
                    "--label and --for-namespace are for --as plugin: the other routes are for one VM",
                )
            }
            (Route::Configmap, Some(_)) => {
                refuse("--as configmap takes no --image: the ConfigMap has the module")
            }
            (Route::Configmap, None) => Ok(None),
            (Route::Sidecar, None) => refuse(
                "--as sidecar needs --image: an image whose entrypoint is virt-hook, such as registry.example/virt-hook:0.1",
            ),
            (_, None) => refuse(
                "--image is missing: the image with the module, such as registry.example/hooks:1, which `virt-hook image` \
                 and `virt-hook push` make",
            ),
            (_, Some(image)) => match image.parse::<Reference>() {
                Ok(_) => Ok(Some(image.clone())),
                Err(error) => Err(Failure::usage(anyhow::Error::new(error).context("--image"))),
            },
        }
    }
}
