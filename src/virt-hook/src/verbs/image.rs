//! `virt-hook image`: modules as an OCI image layout, for image volumes and registries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use domain::convert::architecture_names;
use hook_host::policy::{HookYaml, module_signature};
use hook_host::wasm::Interface;
use hook_host::{Description, HookPoint};
use image_layout::{Image, ImageError, Layer, Platform, WasmArtifact, sha256};
use serde::Serialize;
use sigstore_bundle::{Bundle, SUFFIX};

use crate::hook_module::HookModule;
use crate::inputs::input_file;
use crate::output::{Report, Style, TerminalEscaped};
use crate::temporary_directory::TemporaryDirectory;
use crate::verb_failure::Failure;
use crate::{cached_compilation, interactive_compile, module_discovery};

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
          default_values = architecture_names(), value_parser = architecture_names(), conflicts_with = "artifact")]
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
    let layer = layer(hooks).and_then(|layer| layer.compress());
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

/// The name of the module's file in a hook's directory.
pub(crate) const MODULE_FILE: &str = "hook.wasm";
/// The name of the file with the hook's settings.
pub(crate) const HOOK_YAML: &str = "hook.yaml";
/// The annotation of an artifact with the module's signature.
pub(crate) const SIGNATURE_ANNOTATION: &str = "virt-hook.sigstore-bundle";
/// The longest name of a hook that the admission policies accept.
const MAX_NAME: usize = 42;

/// The files of one hook.
#[derive(Debug)]
pub(crate) struct PackedHook {
    pub(crate) name: String,
    pub(crate) module: Vec<u8>,
    pub(crate) sha256: String,
    pub(crate) hook_yaml: Option<Vec<u8>>,
    pub(crate) signature: Option<String>,
    pub(crate) description: Description,
    /// The hook points of the description that hook.yaml does not remove.
    pub(crate) hook_points: Vec<HookPoint>,
    exports: Vec<String>,
    imports: Vec<String>,
}

/// Reads the files of hooks and checks that each module is a hook.
pub(crate) fn pack(modules: &[HookModule]) -> Result<Vec<PackedHook>, Failure> {
    let mut names: BTreeMap<&str, &Path> = BTreeMap::new();
    for hook in modules {
        check_name(hook)?;
        if let Some(other) = names.insert(&hook.directory, &hook.module) {
            return Err(Failure::usage(anyhow!(
                "{} and {} are both named {}: an image has a directory per module; put them into \
                 directories of different names",
                other.display(),
                hook.module.display(),
                hook.directory
            )));
        }
    }
    modules.iter().map(pack_one).collect()
}

fn pack_one(hook: &HookModule) -> Result<PackedHook, Failure> {
    let path = &hook.module;
    let bytes = input_file::read(path, interactive_compile::max_module())?;
    let temp_dir = TemporaryDirectory::new()
        .context("making a temporary directory")
        .map_err(Failure::Internal)?;
    let loaded = cached_compilation::load(path, &temp_dir.path().join("compiled"))?;
    let module = loaded.map_err(interactive_compile::unusable)?;
    let names = |interfaces: Vec<Interface>| {
        interfaces
            .into_iter()
            .map(|interface| interface.name)
            .collect()
    };
    let interfaces = module.interfaces();
    let sha256 = module.digest().to_owned();
    check_unchanged(path, &bytes, &sha256)?;
    let hook_yaml = hook_yaml(hook, &sha256)?;
    let remaining = hook_yaml.as_ref().and_then(|(yaml, _)| yaml.hook_points());
    let points = module.description().hook_points.iter();
    let points = points.map(|subscription| subscription.point);
    Ok(PackedHook {
        name: hook.directory.clone(),
        hook_points: points
            .filter(|point| {
                remaining
                    .as_ref()
                    .is_none_or(|points| points.contains(point))
            })
            .collect(),
        hook_yaml: hook_yaml.map(|(_, text)| text.into_bytes()),
        signature: signature(path, &bytes)?,
        sha256,
        description: module.description().clone(),
        module: bytes,
        exports: names(interfaces.exports),
        imports: names(interfaces.imports),
    })
}

/// Refuses a module that was replaced after it was read: the packed bytes must be those that were compiled.
fn check_unchanged(path: &Path, packed: &[u8], compiled: &str) -> Result<(), Failure> {
    match sha256(packed).hex() == compiled {
        true => Ok(()),
        false => Err(Failure::usage(anyhow!(
            "{}: it was changed while it was read: run this again when its build is done",
            path.display()
        ))),
    }
}

/// Whether the admission policies accept the name. Such a name needs no quoting anywhere.
pub(crate) fn is_hook_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_edge = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-');
    let bytes = name.as_bytes();
    bytes.iter().all(|byte| fits(*byte))
        && is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.len() <= MAX_NAME
}

fn check_name(hook: &HookModule) -> Result<(), Failure> {
    let name = &hook.directory;
    if is_hook_name(name) {
        return Ok(());
    }
    Err(Failure::usage(anyhow!(
        "{}: {name:?} cannot be the name of a hook in an image: a-z, 0-9 and -, at most {MAX_NAME} \
         characters; rename the file, or give a directory of such a name",
        hook.module.display()
    )))
}

/// The parsed hook.yaml and its text.
fn hook_yaml(hook: &HookModule, sha256: &str) -> Result<Option<(HookYaml, String)>, Failure> {
    let Some(path) = &hook.settings else {
        return Ok(None);
    };
    let text = HookYaml::text(path).map_err(Failure::usage)?;
    let text = text.ok_or_else(|| Failure::usage(anyhow!("{}: no such file", path.display())))?;
    let yaml = HookYaml::parse(path, &text).map_err(Failure::usage)?;
    match yaml.sha256() {
        Some(pin) if pin != sha256 => Err(Failure::refused(anyhow!(
            "{}: it is for a module with the sha256 {pin}, and {} has {sha256}",
            path.display(),
            hook.module.display()
        ))),
        _ => Ok(Some((yaml, text))),
    }
}

/// The signature beside the module. The signer is checked by whoever runs the module.
fn signature(module: &Path, content: &[u8]) -> Result<Option<String>, Failure> {
    let Some(text) = module_signature::text(module).map_err(Failure::usage)? else {
        return Ok(None);
    };
    let path = || module_signature::path_of(module).display().to_string();
    let bundle = Bundle::parse(&text).with_context(path);
    let bundle = bundle.map_err(Failure::Refused)?;
    let is_for = bundle.is_for(content).with_context(path);
    is_for.map_err(Failure::Refused)?;
    Ok(Some(text))
}

/// The layer of an ordinary image.
pub(crate) fn layer(hooks: &[PackedHook]) -> Result<Layer, ImageError> {
    let mut layer = Layer::new();
    for hook in hooks {
        let directory = format!("/{}", hook.name);
        layer.directory(&directory, 0o755)?;
        let mut file = |name: &str, content: &[u8]| {
            layer.file(&format!("{directory}/{name}"), 0o644, content.to_owned())
        };
        file(MODULE_FILE, &hook.module)?;
        if let Some(yaml) = &hook.hook_yaml {
            file(HOOK_YAML, yaml)?;
        }
        if let Some(signature) = &hook.signature {
            file(&format!("{MODULE_FILE}{SUFFIX}"), signature.as_bytes())?;
        }
    }
    Ok(layer)
}

impl PackedHook {
    /// The module as an artifact, without hook.yaml: settings are up to whoever runs the module.
    pub(crate) fn artifact(&self) -> WasmArtifact {
        let signature = self.signature.iter();
        let annotations = signature.map(|text| (SIGNATURE_ANNOTATION.to_owned(), text.clone()));
        WasmArtifact {
            component: self.module.clone(),
            exports: self.exports.clone(),
            imports: self.imports.clone(),
            annotations: annotations.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_was_rebuilt_after_it_was_read_is_not_packed() {
        let path = Path::new("hook.wasm");
        let compiled = sha256(b"new");
        assert!(check_unchanged(path, b"new", compiled.hex()).is_ok());
        let refused = check_unchanged(path, b"old", compiled.hex());
        let refused = refused.map_err(|failure| failure.to_string());
        assert!(refused.is_err_and(|text| text.contains("hook.wasm: it was changed")));
    }
}
