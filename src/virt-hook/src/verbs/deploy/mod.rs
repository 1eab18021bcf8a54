//! `virt-hook deploy`: the objects that bring a module into a cluster.

mod arguments;
mod deployment_report;
mod hook_manifests;
mod kubernetes_names;
mod plugin_scope;
mod uncalled_hook_points;
mod vm_annotations;

use anyhow::anyhow;
use hook_host::HookPoint;
use serde_json::{Value, json};

use crate::inputs::input_file;
use crate::module_discovery;
use crate::output;
use crate::verb_failure::Failure;
use crate::verbs::image::{self, PackedHook};
use crate::verbs::inspect::MinimalPolicy;
use arguments::Route;
pub(crate) use arguments::{Arguments, HELP};
pub(crate) use deployment_report::Deployment;
use plugin_scope::PluginScope;
use vm_annotations::{Annotation, AnnotationValue, SIDECARS};

/// Maximum total size of a ConfigMap's values, in bytes.
const MAX_CONFIG_MAP: usize = 1 << 20;

/// Reads and checks the module, and makes the manifests.
pub(crate) fn run(arguments: &Arguments) -> Result<Deployment, Failure> {
    let image = arguments.checked_image()?;
    kubernetes_names::check_namespace("--namespace", &arguments.namespace)?;
    kubernetes_names::check_domain(&arguments.domain)?;
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
    kubernetes_names::check_hook(&module.directory, &module.module)?;
    if matches!(arguments.route, Route::Configmap | Route::Image) && !arguments.counted {
        kubernetes_names::check_standing_hook(&module.directory)?;
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
