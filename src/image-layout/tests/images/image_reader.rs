//! The manifest, configuration and unpacked files of a written layout, as a container runtime reads them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

/// A file, directory or link of an image.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) mode: u32,
    pub(crate) owner: (u64, u64),
    pub(crate) kind: tar::EntryType,
    /// The content of a file, or the target of a link.
    pub(crate) content: Vec<u8>,
    pub(crate) capabilities: Option<Vec<u8>>,
}

pub(crate) fn sha256_hex(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The blob of a descriptor. Its digest and size are asserted.
fn read_blob(layout: &Path, descriptor: &Json) -> Vec<u8> {
    let digest = descriptor["digest"].as_str().unwrap();
    let content = fs::read(layout.join("blobs").join(digest.replace(':', "/"))).unwrap();
    let actual = sha256_hex(&content);
    assert_eq!(digest, format!("sha256:{actual}"));
    if let Some(size) = descriptor["size"].as_u64() {
        assert_eq!(size, content.len() as u64);
    }
    content
}

fn parse_json(content: &[u8]) -> Json {
    serde_json::from_slice(content).unwrap()
}

/// The manifest and the configuration of a layout with one image.
pub(crate) fn read_image(layout: &Path) -> (Json, Json) {
    let index = parse_json(&fs::read(layout.join("index.json")).unwrap());
    assert_eq!(index["manifests"].as_array().unwrap().len(), 1);
    let manifest = parse_json(&read_blob(layout, &index["manifests"][0]));
    let config = parse_json(&read_blob(layout, &manifest["config"]));
    (manifest, config)
}

/// The entries by path after all layers are applied. Whiteouts are not supported.
pub(crate) fn unpack(layout: &Path) -> BTreeMap<String, Entry> {
    let (manifest, config) = read_image(layout);
    let layers = manifest["layers"].as_array().unwrap();
    let diff_ids = config["rootfs"]["diff_ids"].as_array().unwrap();
    assert_eq!(layers.len(), diff_ids.len());
    let mut files = BTreeMap::new();
    for (layer, diff_id) in layers.iter().zip(diff_ids) {
        let mut archive = Vec::new();
        GzDecoder::new(&read_blob(layout, layer)[..])
            .read_to_end(&mut archive)
            .unwrap();
        let actual = sha256_hex(&archive);
        assert_eq!(*diff_id, format!("sha256:{actual}"));
        for entry in tar::Archive::new(&archive[..]).entries().unwrap() {
            let (path, entry) = read_entry(entry.unwrap());
            files.insert(path, entry);
        }
    }
    files
}

fn read_entry(mut entry: tar::Entry<'_, &[u8]>) -> (String, Entry) {
    let path = entry
        .path()
        .unwrap()
        .to_str()
        .unwrap()
        .trim_end_matches('/')
        .to_owned();
    let capability = "SCHILY.xattr.security.capability";
    let extensions = entry.pax_extensions().unwrap();
    let mut extensions = extensions.into_iter().flatten().map(Result::unwrap);
    let capabilities = extensions.find(|extension| extension.key() == Ok(capability));
    let capabilities = capabilities.map(|extension| extension.value_bytes().to_vec());
    let mut content = Vec::new();
    if let Some(target) = entry.link_name().unwrap() {
        content.extend(target.to_str().unwrap().bytes());
    }
    entry.read_to_end(&mut content).unwrap();
    let header = entry.header();
    let read = Entry {
        mode: header.mode().unwrap(),
        owner: (header.uid().unwrap(), header.gid().unwrap()),
        kind: header.entry_type(),
        content,
        capabilities,
    };
    (path, read)
}
