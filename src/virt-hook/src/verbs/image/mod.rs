//! `virt-hook image`: modules as an OCI image layout, for image volumes and registries.

mod packed_hook;

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use image_layout::{Image, ImageError, Platform};
use serde::Serialize;

use crate::module_discovery;
use crate::output::{Report, Style, TerminalEscaped};
use crate::verb_failure::Failure;
pub(crate) use packed_hook::{
    HOOK_YAML, MODULE_FILE, PackedHook, SIGNATURE_ANNOTATION, is_hook_name, pack,
};

pub(crate) const HELP: &str = "\
The image has one layer with a directory per hook: NAME/hook.wasm, hook.yaml if there is one, and the
signature of `virt-hook sign`. NAME is the name of the module's file, or of the directory on the command
line. The same modules make the same image, byte for byte. `virt-hook push`, or skopeo, copies the layout
to a registry.

Examples:
  virt-hook image smbios.wasm --out layout
  virt-hook image hooks/ --out layout --name hooks:1
  virt-hook image smbios.wasm --artifact --out layout

Exit codes:
  0  the layout is written
  1  a module does not match its hook.yaml; standard error says why
  2  invalid command line, or an unusable file: a module is not a hook
  3  the layout could not be written";

/// The architectures that KubeVirt runs on.
const ARCHITECTURES: [&str; 3] = ["amd64", "arm64", "s390x"];

/// Arguments of `virt-hook image`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A module, or a directory that holds modules
    #[arg(value_name = "DIR_OR_WASM", required = true)]
    modules: Vec<PathBuf>,
    /// The hook.yaml of a single module [default: the one beside the module]
    #[arg(long, value_name = "FILE")]
    hook_yaml: Option<PathBuf>,
    /// The OCI layout to write, a new directory
    #[arg(long, short, value_name = "LAYOUT")]
    out: PathBuf,
    /// The image's name in the layout
    #[arg(long, value_name = "NAME", default_value = "latest")]
    name: String,
    /// Architecture of nodes that use the image; modules do not depend on it. May be repeated
    #[arg(long = "architecture", value_name = "ARCHITECTURE",
          default_values = ARCHITECTURES, value_parser = ARCHITECTURES, conflicts_with = "artifact")]
    architectures: Vec<String>,
    /// Write a CNCF wasm artifact with one module, for tools that run components; pods cannot mount it
    #[arg(long)]
    artifact: bool,
}

/// A layout that was written.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageReport {
    layout: PathBuf,
    /// The digest of the index, or of the manifest of a single image.
    digest: String,
    kind: &'static str,
    hooks: Vec<PackedHookReport>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PackedHookReport {
    name: String,
    sha256: String,
    bytes: usize,
    hook_yaml: bool,
    signed: bool,
}

/// Reads and checks the modules, and writes the layout.
pub(crate) fn run(arguments: &Arguments) -> Result<ImageReport, Failure> {
    let mut modules = module_discovery::find(&arguments.modules).map_err(Failure::Usage)?;
    if let Some(yaml) = &arguments.hook_yaml {
        match &mut modules[..] {
            [module] => module.settings = Some(yaml.clone()),
            several => {
                return Err(Failure::usage(anyhow!(
                    "--hook-yaml is for one module, and these are {}: put a hook.yaml beside each",
                    several.len()
                )));
            }
        }
    }
    for module in &mut modules {
        module.rename_for_cluster();
    }
    let hooks = pack(&modules)?;
    let digest = match &hooks[..] {
        [hook] if arguments.artifact => {
            let artifact = hook.artifact().write(&arguments.out, &arguments.name);
            artifact.map_err(failure)?
        }
        _ if arguments.artifact => {
            return Err(Failure::usage(anyhow!(
                "an artifact has one module, and these are {}: write one layout for each",
                hooks.len()
            )));
        }
        _ => write_image(arguments, &hooks)?,
    };
    let kind = if arguments.artifact {
        "artifact"
    } else {
        "image"
    };
    Ok(ImageReport {
        layout: arguments.out.clone(),
        digest,
        kind,
        hooks: hooks.iter().map(PackedHookReport::new).collect(),
    })
}

fn write_image(arguments: &Arguments, hooks: &[PackedHook]) -> Result<String, Failure> {
    let layer = packed_hook::layer(hooks).and_then(|layer| layer.compress());
    let layer = layer.map_err(failure)?;
    let images = arguments.architectures.iter().map(|architecture| {
        let mut image = Image::empty(Platform {
            os: "linux".to_owned(),
            architecture: architecture.clone(),
        });
        image.push(layer.clone(), "virt-hook image");
        image
    });
    let images: Vec<Image> = images.collect();
    let written = match &images[..] {
        [image] => image.write(&arguments.out, &arguments.name),
        _ => Image::write_index(&images, &arguments.out, &arguments.name),
    };
    written.map_err(failure)
}

fn failure(error: ImageError) -> Failure {
    match error {
        ImageError::OutputExists(_) => Failure::usage(error),
        _ => Failure::internal(error),
    }
}

impl PackedHookReport {
    fn new(hook: &PackedHook) -> Self {
        Self {
            name: hook.name.clone(),
            sha256: hook.sha256.clone(),
            bytes: hook.module.len(),
            hook_yaml: hook.hook_yaml.is_some(),
            signed: hook.signature.is_some(),
        }
    }
}

impl Report for ImageReport {
    fn text(&self, _: Style) -> String {
        let mut text = format!("{}: {} {}\n", self.layout.display(), self.kind, self.digest);
        for hook in &self.hooks {
            let signed = if hook.signed { "signed" } else { "not signed" };
            text += &format!(
                "  {}: sha256 {}, {} bytes, {signed}\n",
                TerminalEscaped(&hook.name),
                hook.sha256,
                hook.bytes
            );
        }
        text
    }
}
