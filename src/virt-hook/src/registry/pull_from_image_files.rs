//! Pulls the hooks of an ordinary image from its files: a directory for each hook.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::anyhow;
use hook_host::printable;
use image_layout::ImageFiles;
use oci_registry::{Client, Manifest};
use sigstore_bundle::SUFFIX;

use super::manifest_blobs::{blob, layers};
use super::pulled_hook::{MAX_PRINTED, MAX_TEXT, PulledHook};
use super::registry_options::MAX_BLOB;
use crate::exit_codes::Failure;
use crate::image::{HOOK_YAML, MODULE, is_hook_name};
use crate::interactive_compile;

/// The most layers and hooks of an image.
const MAX_LAYERS: usize = 64;
const MAX_HOOKS: usize = 64;
/// The most bytes of all layers together when they are unpacked.
const MAX_UNPACKED: u64 = MAX_BLOB;

/// A file of a hook.
enum HookFile {
    Module,
    Settings,
    Signature,
}

impl HookFile {
    /// The hook's directory and its file, if the path is that of one.
    fn of(path: &str) -> Option<(&str, Self)> {
        let (directory, file) = path.split_once('/')?;
        let file = match file {
            MODULE => Self::Module,
            HOOK_YAML => Self::Settings,
            other if other.strip_prefix(MODULE) == Some(SUFFIX) => Self::Signature,
            _ => return None,
        };
        Some((directory, file))
    }

    /// The most bytes of the file.
    fn limit(&self) -> u64 {
        match self {
            Self::Module => interactive_compile::limits().module as u64,
            Self::Settings | Self::Signature => MAX_TEXT,
        }
    }
}

/// Pulls the layers one after the other, and keeps the files of hooks only.
pub(super) fn image_hooks(
    client: &mut Client,
    manifest: &Manifest,
) -> Result<Vec<PulledHook>, Failure> {
    if layers(manifest).len() > MAX_LAYERS {
        return Err(Failure::refused(anyhow!(
            "the image has more than {MAX_LAYERS} layers"
        )));
    }
    let limit_of = |path: &str| Some(HookFile::of(path)?.1.limit());
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

/// Refuses names and numbers of hooks before further layers are pulled.
fn check_names<'a>(paths: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    let directories = paths.filter_map(|path| Some(HookFile::of(path)?.0));
    let directories: BTreeSet<&str> = directories.collect();
    if let Some(name) = directories.iter().find(|name| !is_hook_name(name)) {
        let name = printable(name, MAX_PRINTED);
        return Err(Failure::refused(anyhow!(
            "{name}: no name of a hook: a-z, 0-9 and -"
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
        if let Some((directory, file)) = HookFile::of(&path) {
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
            "the image has 0 hooks: a directory with {MODULE} is wanted for each"
        ))),
        false => Ok(hooks),
    }
}
