//! `virt-hook deploy`: the objects that bring a module into a cluster.

mod annotations;
mod cluster_objects;
mod kubernetes_names;
mod plugin_scope;
mod uncalled_hook_points;

use std::path::PathBuf;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use hook_host::HookPoint;
use oci_registry::Reference;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::exit_codes::Failure;
use crate::image::{self, PackedHook};
use crate::inputs::input_file;
use crate::inspect::MinimalPolicy;
use crate::module_files;
use crate::output::{self, Report, Style};
use crate::yaml_writer::{self, comment};
use annotations::{Annotation, AnnotationValue, SIDECARS};
use plugin_scope::PluginScope;

pub(crate) const HELP: &str = "\
The manifests are printed for `kubectl apply --server-side`; without --server-side kubectl copies a
ConfigMap into an annotation, which most modules do not fit into. With --vm they include the VM with
the annotations that ask for the hook; without it, a comment has the annotations. A comment at the
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
  1  it does not fit its hook.yaml or a ConfigMap, nothing calls its hook points on the route, or a sidecar needs
     --allow-dangerous; standard error says why
  2  the command line, or a file that it names, cannot be used: it is not a hook
  3  this machine could not do it";

/// The most bytes of all values of a ConfigMap.
const MAX_CONFIG_MAP: usize = 1 << 20;

/// What `deploy` is given.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The module, or the directory that holds it
    #[arg(value_name = "WASM_OR_DIR")]
    module: PathBuf,
    /// How the module gets to the VM
    #[arg(long = "as", value_name = "ROUTE")]
    route: Route,
    /// With `image` and `plugin` the image with the module, with `sidecar` the image with virt-hook
    #[arg(long, value_name = "REFERENCE")]
    image: Option<String>,
    /// The manifest of a VirtualMachine or VirtualMachineInstance, printed with the annotations;
    /// `-` reads standard input
    #[arg(long, value_name = "FILE")]
    vm: Option<PathBuf>,
    /// The VM's namespace, where a ConfigMap must be
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
    /// The hook.yaml of the module, instead of the one beside it
    #[arg(long, value_name = "FILE")]
    hook_yaml: Option<PathBuf>,
    /// With `image`: the launcher waits for the hook (`/hooks`), instead of having it from its start (`/standing`)
    #[arg(long)]
    counted: bool,
    /// With `sidecar`: the policy in its arguments grants the paths of the dangerous set and the directories that the
    /// module declares
    #[arg(long)]
    allow_dangerous: bool,
    /// What the annotations of the cluster's admission policies begin with
    #[arg(long, value_name = "DOMAIN", default_value = "wasm-hooks.example.com")]
    domain: String,
    /// With `plugin`: the API version of admission policies, v1beta1 before Kubernetes 1.36
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

/// The objects, and what is not an object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Deployment {
    name: String,
    sha256: String,
    route: Route,
    /// What kubectl applies.
    manifests: Vec<Value>,
    /// What the VM's template needs; empty for a Plugin.
    annotations: Map<String, Value>,
    /// Whether the manifests have a VM with the annotations.
    has_vm: bool,
    /// The module's hook points that are never called on the route.
    uncalled_hook_points: Vec<&'static str>,
    /// The content of `allow` of the minimal operator's policy with which the module runs.
    policy: MinimalPolicy,
    #[serde(skip)]
    image: Option<String>,
    /// Whether a Plugin is for every VM of the cluster.
    #[serde(skip)]
    for_all: bool,
    #[serde(skip)]
    domain: String,
    /// About the hook points.
    #[serde(skip)]
    notes: String,
}

/// Reads and checks the module, and makes the objects.
pub(crate) fn run(arguments: &Arguments) -> Result<Deployment, Failure> {
    let image = image(arguments)?;
    kubernetes_names::namespace("--namespace", &arguments.namespace)?;
    kubernetes_names::domain(&arguments.domain)?;
    let scope = PluginScope::parse(
        arguments.label.as_deref(),
        arguments.for_namespace.as_deref(),
    )?;
    let hook = hook(arguments)?;
    let (route, points) = (arguments.route, &hook.hook_points);
    let uncalled = route.uncalled(&arguments.module, points)?;
    let mut manifests = objects(arguments, &hook, image.as_deref(), &scope)?;
    let asked = annotations(arguments, &hook, image.as_deref())?;
    if let Some(path) = &arguments.vm {
        let vm = annotations::on_vm(path, &asked, &arguments.namespace)?;
        let sidecars = annotations::sidecar_count(&vm);
        if let Some(warning) = uncalled_hook_points::cloud_init_warning(route, points, sidecars) {
            output::warn(&format!("{}: {warning}", input_file::name(path)));
        }
        manifests.push(vm);
    }
    Ok(Deployment {
        name: hook.name.clone(),
        sha256: hook.sha256.clone(),
        route,
        manifests,
        annotations: annotations::alone(&asked)?,
        has_vm: arguments.vm.is_some(),
        notes: route.notes(points, &uncalled),
        uncalled_hook_points: uncalled.into_iter().map(HookPoint::name).collect(),
        policy: MinimalPolicy::of(&hook.description),
        image,
        for_all: scope.is_all(),
        domain: arguments.domain.clone(),
    })
}

/// The image, and whether the route takes the options.
fn image(arguments: &Arguments) -> Result<Option<String>, Failure> {
    let refuse = |text: &str| Err(Failure::usage(anyhow!("{text}")));
    let Arguments { route, image, .. } = arguments;
    match (route, image) {
        _ if arguments.counted && *route != Route::Image => {
            refuse("--counted is for --as image: hooks of the other routes are not counted")
        }
        _ if arguments.allow_dangerous && *route != Route::Sidecar => refuse(
            "--allow-dangerous is for --as sidecar: on the other routes the policy of the launcher's image grants",
        ),
        (Route::Plugin, _) if arguments.vm.is_some() => refuse(
            "--as plugin takes no --vm: a Plugin is for all VMs, or those of --label and --for-namespace",
        ),
        (Route::Configmap | Route::Image | Route::Sidecar, _)
            if arguments.label.is_some() || arguments.for_namespace.is_some() =>
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

fn hook(arguments: &Arguments) -> Result<PackedHook, Failure> {
    let found = module_files::find(std::slice::from_ref(&arguments.module));
    let mut found = found.map_err(Failure::Usage)?;
    let [one] = &mut found[..] else {
        return Err(Failure::usage(anyhow!(
            "{}: it has {} modules, and deploy is for one: name its file or directory",
            arguments.module.display(),
            found.len()
        )));
    };
    if let Some(name) = &arguments.name {
        one.directory.clone_from(name);
    }
    if let Some(yaml) = &arguments.hook_yaml {
        one.settings = Some(yaml.clone());
    }
    kubernetes_names::hook(&one.directory, &one.module)?;
    if matches!(arguments.route, Route::Configmap | Route::Image) && !arguments.counted {
        kubernetes_names::standing_hook(&one.directory)?;
    }
    let mut packed = image::pack(&found)?;
    packed
        .pop()
        .ok_or_else(|| Failure::machine(anyhow!("no module")))
}

fn objects(
    arguments: &Arguments,
    hook: &PackedHook,
    image: Option<&str>,
    scope: &PluginScope,
) -> Result<Vec<Value>, Failure> {
    let namespace = &arguments.namespace;
    match (arguments.route, image) {
        (Route::Plugin, Some(image)) => {
            let [policy, binding] =
                cluster_objects::plugin_mount(&hook.name, image, &arguments.api_version, scope);
            let plugin = cluster_objects::plugin(&hook.name, scope);
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
            Ok(vec![cluster_objects::module_config_map(
                hook,
                namespace,
                image::MODULE,
            )])
        }
        (Route::Configmap, _) => {
            let yaml = hook.hook_yaml.as_ref().map_or(0, Vec::len);
            let signature = hook.signature.as_ref().map_or(0, String::len);
            fits_config_map(arguments, hook.module.len() + yaml + signature)?;
            Ok(vec![cluster_objects::config_map(hook, namespace)])
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

/// What the VM's template needs.
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
            let policy = MinimalPolicy::of(&hook.description);
            refuse_dangerous(arguments, &policy)?;
            let policy = serde_json::to_value(policy).map_err(Failure::machine)?;
            let sidecar = cluster_objects::sidecar(hook, image, &json!({"allow": policy}));
            vec![Annotation {
                name: SIDECARS.to_owned(),
                value: AnnotationValue::Item(sidecar),
            }]
        }
        (Route::Plugin, _) | (_, None) => Vec::new(),
    })
}

/// Whoever writes the annotation grants: the module's own declaration is no reason to.
fn refuse_dangerous(arguments: &Arguments, policy: &MinimalPolicy) -> Result<(), Failure> {
    let wanted = policy.dangerous_and_dirs();
    if wanted.is_empty() || arguments.allow_dangerous {
        return Ok(());
    }
    Err(Failure::refused(anyhow!(
        "{}: the module declares {}, of the dangerous set or a directory, which the sidecar's policy would grant it: \
         read what it does there, and then add --allow-dangerous",
        arguments.module.display(),
        wanted.join(", ")
    )))
}

impl Deployment {
    /// What to do before the objects can work.
    fn introduction(&self) -> String {
        let image = self.image.as_deref().unwrap_or_default();
        let name = &self.name;
        let line = match self.route {
            Route::Configmap => {
                "For this project's launcher, with deploy/admission applied (standing-hooks-from-config-map.yaml).".to_owned()
            }
            Route::Image => format!(
                "For this project's launcher, with deploy/admission applied. {image} has the directory {name}/."
            ),
            Route::Plugin => format!(
                "For this project's launcher, with KubeVirt's feature gate Plugins. {image} has the directory {name}/.{}",
                self.plugin_warning()
            ),
            Route::Sidecar => {
                "For KubeVirt's own launcher, with the feature gate Sidecar.".to_owned()
            }
        };
        comment(&format!(
            "Hook {name}, sha256 {}.\n{line}\n{}kubectl apply --server-side -f -\n",
            self.sha256, self.notes
        ))
    }

    /// What a Plugin does to VMs that the module is not meant for.
    fn plugin_warning(&self) -> String {
        if !self.for_all {
            return String::new();
        }
        format!(
            " It is for every VM of the cluster: KubeVirt's own launcher, which does not run modules, waits 30 s for a \
             socket and then fails to start the VM. Until all VMs have this launcher, limit it to those that do: \
             --label {}/canary=true, or --for-namespace.",
            self.domain
        )
    }

    fn annotations_comment(&self) -> String {
        if self.has_vm || self.annotations.is_empty() {
            return String::new();
        }
        let annotations = Value::from(self.annotations.clone());
        let annotations = yaml_writer::documents(&[annotations]);
        comment(&format!(
            "Annotations of the VM's template (spec.template.metadata.annotations); --vm FILE adds them:\n{annotations}"
        ))
    }

    fn policy_comment(&self) -> String {
        let place = match self.route {
            Route::Sidecar => "The minimal policy that it needs, as in the sidecar's arguments:",
            _ => {
                "The minimal operator's policy that it needs, for /etc/virt-launcher/hook-policy.yaml of the \
                 launcher's image:"
            }
        };
        comment(&format!("{place}\n{}", self.policy.yaml()))
    }
}

impl Report for Deployment {
    fn text(&self, _: Style) -> String {
        let mut parts = vec![self.introduction()];
        if !self.manifests.is_empty() {
            parts.push(yaml_writer::documents(&self.manifests));
        }
        parts.extend([self.annotations_comment(), self.policy_comment()]);
        parts.retain(|part| !part.is_empty());
        parts.concat()
    }
}
