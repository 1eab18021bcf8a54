//! `virt-hook deploy`: the objects that bring a module into a cluster.

mod deployment_report;
mod hook_manifests;
mod vm_annotations;

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use hook_host::HookPoint;
use oci_registry::Reference;
use serde::Serialize;
use serde_json::{Value, json};

use crate::inputs::input_file;
use crate::verb_failure::Failure;
use crate::verbs::image;
use crate::verbs::image::{PackedHook, is_hook_name};
use crate::verbs::inspect::MinimalPolicy;
use crate::{module_discovery, output};
pub(crate) use deployment_report::Deployment;
use hook_manifests::PluginScope;
use vm_annotations::{Annotation, AnnotationValue, SIDECARS};

/// Maximum total size of a ConfigMap's values, in bytes.
const MAX_CONFIG_MAP: usize = 1 << 20;

/// Reads and checks the module, and makes the manifests.
pub(crate) fn run(arguments: &Arguments) -> Result<Deployment, Failure> {
    let image = arguments.checked_image()?;
    check_namespace("--namespace", &arguments.namespace)?;
    check_domain(&arguments.domain)?;
    let scope = PluginScope::parse(
        arguments.label.as_deref(),
        arguments.for_namespace.as_deref(),
    )?;
    let hook = hook(arguments)?;
    let (route, points) = (arguments.route, &hook.hook_points);
    let uncalled = route.uncalled(&arguments.module, points)?;
    let mut manifests = manifests(arguments, &hook, image.as_deref(), &scope)?;
    let annotations = annotations(arguments, &hook, image.as_deref())?;
    if let Some(path) = &arguments.vm {
        let vm = vm_annotations::on_vm(path, &annotations, &arguments.namespace)?;
        let sidecars = vm_annotations::sidecar_count(&vm);
        if let Some(warning) = deployment_report::cloud_init_warning(route, points, sidecars) {
            output::warn(&format!("{}: {warning}", input_file::name(path)));
        }
        manifests.push(vm);
    }
    Ok(Deployment {
        name: hook.name.clone(),
        sha256: hook.sha256.clone(),
        route,
        manifests,
        annotations: vm_annotations::without_vm(&annotations)?,
        has_vm: arguments.vm.is_some(),
        notes: route.notes(points, &uncalled),
        uncalled_hook_points: uncalled.into_iter().map(HookPoint::name).collect(),
        policy: MinimalPolicy::for_module(&hook.description),
        image,
        for_all: scope.is_all(),
        domain: arguments.domain.clone(),
    })
}

fn hook(arguments: &Arguments) -> Result<PackedHook, Failure> {
    let modules = module_discovery::find(std::slice::from_ref(&arguments.module));
    let mut modules = modules.map_err(Failure::Usage)?;
    let [module] = &mut modules[..] else {
        return Err(Failure::usage(anyhow!(
            "{}: it has {} modules, and deploy is for one: name its file or directory",
            arguments.module.display(),
            modules.len()
        )));
    };
    match &arguments.name {
        Some(name) => module.directory.clone_from(name),
        None => module.rename_for_cluster(),
    }
    if let Some(yaml) = &arguments.hook_yaml {
        module.settings = Some(yaml.clone());
    }
    check_hook(&module.directory, &module.module)?;
    if matches!(arguments.route, Route::Configmap | Route::Image) && !arguments.counted {
        check_standing_hook(&module.directory)?;
    }
    let mut packed = image::pack(&modules)?;
    packed
        .pop()
        .ok_or_else(|| Failure::internal(anyhow!("no module")))
}

fn manifests(
    arguments: &Arguments,
    hook: &PackedHook,
    image: Option<&str>,
    scope: &PluginScope,
) -> Result<Vec<Value>, Failure> {
    let namespace = &arguments.namespace;
    match (arguments.route, image) {
        (Route::Plugin, Some(image)) => {
            let [policy, binding] = hook_manifests::plugin_mount_policy(
                &hook.name,
                image,
                &arguments.api_version,
                scope,
            );
            let plugin = hook_manifests::plugin(&hook.name, scope);
            Ok(vec![policy, binding, plugin])
        }
        (Route::Sidecar, _) => {
            if hook.hook_yaml.is_some() {
                return Err(Failure::usage(anyhow!(
                    "{}: a sidecar's ConfigMap is one file, so the sidecar would run without this hook.yaml: use \
                     --as configmap or image, or an image with virt-hook, module and hook.yaml (docs/serve.md); \
                     to do without it, copy the module alone to another directory",
                    arguments.module.display()
                )));
            }
            fits_config_map(arguments, hook.module.len())?;
            Ok(vec![hook_manifests::module_config_map(
                hook,
                namespace,
                image::MODULE_FILE,
            )])
        }
        (Route::Configmap, _) => {
            let yaml = hook.hook_yaml.as_ref().map_or(0, Vec::len);
            let signature = hook.signature.as_ref().map_or(0, String::len);
            fits_config_map(arguments, hook.module.len() + yaml + signature)?;
            Ok(vec![hook_manifests::config_map(hook, namespace)])
        }
        (Route::Image | Route::Plugin, _) => Ok(Vec::new()),
    }
}

fn fits_config_map(arguments: &Arguments, bytes: usize) -> Result<(), Failure> {
    if bytes <= MAX_CONFIG_MAP {
        return Ok(());
    }
    let way_out = match arguments.route {
        Route::Sidecar => "build an image with virt-hook and the module (docs/serve.md), or a PVC",
        _ => "use --as image",
    };
    Err(Failure::refused(anyhow!(
        "{}: the module and its files have {bytes} bytes, and a ConfigMap holds {MAX_CONFIG_MAP}: {way_out}, or build \
         the module smaller (in Rust with the profile `hook` of `virt-hook new`)",
        arguments.module.display()
    )))
}

/// The annotations that the VM's template needs.
fn annotations(
    arguments: &Arguments,
    hook: &PackedHook,
    image: Option<&str>,
) -> Result<Vec<Annotation>, Failure> {
    let annotation = |name: &str, value| Annotation {
        name: format!("{}/{name}", arguments.domain),
        value,
    };
    let name = AnnotationValue::Name(hook.name.clone());
    Ok(match (arguments.route, image) {
        (Route::Configmap, _) => vec![annotation("config-maps", name)],
        (Route::Image, Some(image)) => {
            let list = if arguments.counted {
                "hooks"
            } else {
                "standing"
            };
            let image = AnnotationValue::Single(image.to_owned());
            vec![annotation("image", image), annotation(list, name)]
        }
        (Route::Sidecar, Some(image)) => {
            let policy = MinimalPolicy::for_module(&hook.description);
            refuse_dangerous(arguments, &policy)?;
            let policy = serde_json::to_value(policy).map_err(Failure::internal)?;
            let sidecar = hook_manifests::sidecar_entry(hook, image, &json!({"allow": policy}));
            vec![Annotation {
                name: SIDECARS.to_owned(),
                value: AnnotationValue::Item(sidecar),
            }]
        }
        (Route::Plugin, _) | (_, None) => Vec::new(),
    })
}

/// Refuses to grant the dangerous set and directories without --allow-dangerous: that the module declares them is no
/// reason to grant them, and the sidecar's policy is in the annotation that is printed here.
fn refuse_dangerous(arguments: &Arguments, policy: &MinimalPolicy) -> Result<(), Failure> {
    let dangerous = policy.dangerous_and_dirs();
    if dangerous.is_empty() || arguments.allow_dangerous {
        return Ok(());
    }
    Err(Failure::refused(anyhow!(
        "{}: the module declares {}, from the dangerous set or a directory, which the sidecar's policy would grant: \
         read what it does there, and then add --allow-dangerous",
        arguments.module.display(),
        dangerous.join(", ")
    )))
}

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
    module: PathBuf,
    /// How the module reaches the VM
    #[arg(long = "as", value_name = "ROUTE")]
    route: Route,
    /// Image with the module (for `image` and `plugin`), or with virt-hook (for `sidecar`)
    #[arg(long, value_name = "REFERENCE")]
    image: Option<String>,
    /// Manifest of a VirtualMachine or VirtualMachineInstance, to print with the annotations;
    /// `-` reads standard input
    #[arg(long, value_name = "FILE")]
    vm: Option<PathBuf>,
    /// The VM's namespace, and that of the ConfigMap
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// With `plugin`: only VMs with this label
    #[arg(long, value_name = "KEY=VALUE")]
    label: Option<String>,
    /// With `plugin`: only VMs of this namespace
    #[arg(long, value_name = "NAME")]
    for_namespace: Option<String>,
    /// The hook's name in the cluster [default: the name of the file, or of the directory]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The module's hook.yaml [default: the one beside the module]
    #[arg(long, value_name = "FILE")]
    hook_yaml: Option<PathBuf>,
    /// With `image`: mount the hook at `/hooks`, where the launcher waits for it, instead of at `/standing`
    #[arg(long)]
    counted: bool,
    /// With `sidecar`: also grant the dangerous paths and the directories that the module declares
    #[arg(long)]
    allow_dangerous: bool,
    /// Prefix of the annotations of the cluster's admission policies
    #[arg(long, value_name = "DOMAIN", default_value = "wasm-hooks.example.com")]
    domain: String,
    /// With `plugin`: API version of the admission policies; v1beta1 before Kubernetes 1.36
    #[arg(long, value_name = "VERSION", default_value = "v1", value_parser = ["v1", "v1beta1"])]
    api_version: String,
}

/// How a module gets to a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Route {
    Configmap,
    Image,
    Plugin,
    Sidecar,
}

impl Arguments {
    /// Checks that the route takes the options. Returns the image.
    fn checked_image(&self) -> Result<Option<String>, Failure> {
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

/// Prefixes of hook names that the guard policy of deploy/admission refuses in annotations of VMs.
const RESERVED_PREFIXES: [&str; 2] = ["namespace-", "image-"];
const MAX_LABEL: usize = 63;
const MAX_SUBDOMAIN: usize = 253;

/// Checks a hook's name, which becomes that of its directory, volume, ConfigMap and Plugin.
fn check_hook(name: &str, module: &Path) -> Result<(), Failure> {
    if is_hook_name(name) {
        return Ok(());
    }
    let suggested: String = name
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let suggested = suggested.trim_matches('-').to_owned();
    let way_out = if is_hook_name(&suggested) {
        format!("--name {suggested}")
    } else {
        "--name NAME".to_owned()
    };
    Err(Failure::usage(anyhow!(
        "{}: {name:?} cannot be the name of a hook in a cluster: a-z, 0-9 and -, at most 42 characters; give it one \
         with {way_out}",
        module.display()
    )))
}

/// Checks the name of a standing hook of a VM, which must not be one that the guard policy reserves.
fn check_standing_hook(name: &str) -> Result<(), Failure> {
    match RESERVED_PREFIXES
        .iter()
        .find(|prefix| name.starts_with(**prefix))
    {
        None => Ok(()),
        Some(prefix) => Err(Failure::usage(anyhow!(
            "{name}: the guard keeps names that begin with {prefix} for hooks of namespaces and of the launcher's image; \
             give the hook another one with --name NAME"
        ))),
    }
}

/// Checks the namespace that an option names.
fn check_namespace(option: &str, name: &str) -> Result<(), Failure> {
    if is_dns_label(name) {
        return Ok(());
    }
    Err(Failure::usage(anyhow!(
        "{option} {name}: it is not a name of a namespace: a-z, 0-9 and -, at most {MAX_LABEL} characters"
    )))
}

/// Checks the domain before the slash in the names of annotations.
fn check_domain(name: &str) -> Result<(), Failure> {
    if name.len() <= MAX_SUBDOMAIN && name.split('.').all(is_dns_label) {
        return Ok(());
    }
    Err(Failure::usage(anyhow!(
        "--domain {name}: it is not a DNS name: give the annotation prefix of the admission policies"
    )))
}

/// Whether Kubernetes accepts a label with this value.
fn is_pod_label(key: &str, value: &str) -> bool {
    let (prefix, name) = match key.rsplit_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_subdomain =
        |prefix: &str| prefix.len() <= MAX_SUBDOMAIN && prefix.split('.').all(is_dns_label);
    prefix.is_none_or(is_subdomain)
        && is_label_word(name)
        && (value.is_empty() || is_label_word(value))
}

/// Whether a word can be the name, without prefix, or the value of a label.
fn is_label_word(word: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = word.as_bytes();
    bytes.len() <= MAX_LABEL
        && bytes.iter().copied().all(fits)
        && is_end(bytes.first())
        && is_end(bytes.last())
}

/// Whether a name is an RFC 1123 label.
fn is_dns_label(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty()
        && name.len() <= MAX_LABEL
        && name.bytes().all(fits)
        && !name.starts_with('-')
        && !name.ends_with('-')
}
