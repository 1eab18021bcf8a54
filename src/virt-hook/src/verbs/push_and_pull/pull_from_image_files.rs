//! Pulls the hooks of an ordinary image from its files: a directory for each hook.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::anyhow;
use hook_host::printable;
use image_layout::ImageFiles;
use oci_registry::{Client, Manifest};
use sigstore_bundle::SUFFIX;

use super::limits::{MAX_BLOB, MAX_PRINTED, MAX_TEXT};
use super::manifest_blobs::{blob, layers};
use super::pulled_image::PulledHook;
use crate::interactive_compile;
use crate::verb_failure::Failure;
use crate::verbs::image::{HOOK_YAML, MODULE_FILE, is_hook_name};

/// Maximum number of layers of an image.
const MAX_LAYERS: usize = 64;
/// Maximum number of hooks of an image.
const MAX_HOOKS: usize = 64;
/// Maximum size of all unpacked layers together, in bytes.
const MAX_UNPACKED: u64 = MAX_BLOB;

/// A file of a hook.
enum HookFile {
    Module,
    Settings,
    Signature,
}

impl HookFile {
    /// The hook's directory and the kind of its file, if the path is that of a hook's file.
    fn parse(path: &str) -> Option<(&str, Self)> {
        let (directory, file) = path.split_once('/')?;
        let file = match file {
            MODULE_FILE => Self::Module,
            HOOK_YAML => Self::Settings,
            other if other.strip_prefix(MODULE_FILE) == Some(SUFFIX) => Self::Signature,
            _ => return None,
        };
        Some((directory, file))
    }

    /// Maximum size of the file in bytes.
    fn limit(&self) -> u64 {
        match self {
            Self::Module => interactive_compile::max_module() as u64,
            Self::Settings | Self::Signature => MAX_TEXT,
        }
    }
}

/// Pulls the layers one after the other, and keeps only the files of hooks.
pub(super) fn image_hooks(
    client: &mut Client,
    manifest: &Manifest,
) -> Result<Vec<PulledHook>, Failure> {
    if layers(manifest).len() > MAX_LAYERS {
        return Err(Failure::refused(anyhow!(
            "the image has more than {MAX_LAYERS} layers"
        )));
    }
    let limit_of = |path: &str| Some(HookFile::parse(path)?.1.limit());
    let mut files = ImageFiles::new(MAX_UNPACKED, limit_of);
    for layer in layers(manifest) {
        let content = blob(client, layer, MAX_BLOB)?;
        let media_type = layer["mediaType"].as_str().unwrap_or_default();
        let added = files.add_layer(&content, media_type);
        added.map_err(Failure::refused)?;
        check_names(files.paths())?;
    }
    hooks_of(files.into_files())
}

/// Checks the names and the number of hooks, before further layers are pulled.
fn check_names<'a>(paths: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    let directories = paths.filter_map(|path| Some(HookFile::parse(path)?.0));
    let directories: BTreeSet<&str> = directories.collect();
    if let Some(name) = directories.iter().find(|name| !is_hook_name(name)) {
        let name = printable(name, MAX_PRINTED);
        return Err(Failure::refused(anyhow!(
            "{name}: not a name of a hook: a-z, 0-9 and -"
        )));
    }
    match directories.len() > MAX_HOOKS {
        true => Err(Failure::refused(anyhow!(
            "the image has more than {MAX_HOOKS} hooks"
        ))),
        false => Ok(()),
    }
}

fn hooks_of(files: BTreeMap<String, Vec<u8>>) -> Result<Vec<PulledHook>, Failure> {
    let mut hooks: BTreeMap<String, [Option<Vec<u8>>; 3]> = BTreeMap::new();
    for (path, content) in files {
        if let Some((directory, file)) = HookFile::parse(&path) {
            hooks.entry(directory.to_owned()).or_default()[file as usize] = Some(content);
        }
    }
    let hooks = hooks
        .into_iter()
        .filter_map(|(name, [module, hook_yaml, signature])| {
            let signature = signature.map(|text| String::from_utf8_lossy(&text).into_owned());
            Some(PulledHook {
                name,
                module: module?,
                hook_yaml,
                signature,
            })
        });
    let hooks: Vec<_> = hooks.collect();
    match hooks.is_empty() {
        true => Err(Failure::refused(anyhow!(
            "the image has 0 hooks: each needs a directory with {MODULE_FILE}"
        ))),
        false => Ok(hooks),
    }
}
