//! Images that a test builds, also such as no tool builds, the registries that serve them, and what a pull must leave.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tar::{EntryType, Header};

use super::scripted_registry::{Answer, ScriptedRegistry, sha256};
use crate::virt_hook_program::{ProgramOutput, text};
use crate::{WASM, pull_within};

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const TAR: &str = "application/vnd.oci.image.layer.v1.tar";
pub(crate) const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// The longest error: names of the image are cut.
pub(crate) const MAX_ERROR: usize = 4096;

/// The expected end of a `pull`.
pub(crate) enum Expected<'a> {
    /// These files are written below the target directory.
    Files(&'a [&'a str]),
    /// The exit code, and a part of the error.
    Refused(i32, &'a str),
}
/// A tar archive that is built entry by entry, also with what tar programs refuse to write.
#[derive(Default)]
pub(crate) struct Archive(Vec<u8>);

impl Archive {
    pub(crate) fn entry(
        mut self,
        kind: EntryType,
        name: &[u8],
        link: &str,
        size: u64,
        content: &[u8],
    ) -> Self {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(size);
        let field = &mut header.as_old_mut().name;
        let stored = name.len().min(field.len());
        field[..stored].copy_from_slice(&name[..stored]);
        let field = &mut header.as_old_mut().linkname;
        field[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        let padded = self.0.len().next_multiple_of(512);
        self.0.resize(padded, 0);
        self
    }

    pub(crate) fn file(self, name: &str, content: &[u8]) -> Self {
        let size = content.len() as u64;
        self.entry(EntryType::Regular, name.as_bytes(), "", size, content)
    }

    pub(crate) fn special(self, kind: EntryType, name: &str, link: &str) -> Self {
        self.entry(kind, name.as_bytes(), link, 0, b"")
    }

    /// A PAX header with one record for the next entry.
    pub(crate) fn pax(self, key: &str, value: &str) -> Self {
        let rest = format!(" {key}={value}\n");
        let mut length = rest.len() + 1;
        while length != rest.len() + length.to_string().len() {
            length += 1;
        }
        let record = format!("{length}{rest}");
        let size = record.len() as u64;
        self.entry(EntryType::XHeader, b"pax", "", size, record.as_bytes())
    }

    /// GNU's header with a long name for the next entry.
    pub(crate) fn long_name(self, name: &[u8]) -> Self {
        let size = name.len() as u64;
        self.entry(EntryType::GNULongName, b"././@LongLink", "", size, name)
    }

    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

pub(crate) fn good_layer() -> Vec<u8> {
    Archive::default().file("a/hook.wasm", WASM).end()
}

pub(crate) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// The start of an archive with a file of `mebibytes` MiB of zeros, compressed: a few kilobytes for each MiB.
pub(crate) fn gzip_with_zeros(archive: Archive, name: &str, mebibytes: usize) -> Vec<u8> {
    let size = (mebibytes as u64) << 20;
    let head = archive.entry(EntryType::Regular, name.as_bytes(), "", size, b"");
    // Members of gzip that follow one another are one stream.
    let zeros = gzip(&[0; 1 << 20]).repeat(mebibytes);
    [gzip(&head.0), zeros, gzip(&[0; 1024])].concat()
}

pub(crate) fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": sha256(content), "size": content.len()})
}

pub(crate) fn manifest_of(layers: &[Value]) -> Vec<u8> {
    let config = json!({"mediaType": CONFIG});
    json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers})
        .to_string()
        .into_bytes()
}

/// A registry with a document under the tag 1, and blobs and manifests by digest.
pub(crate) fn serve(tagged: Vec<u8>, blobs: Vec<(String, Answer)>) -> ScriptedRegistry {
    ScriptedRegistry::start(move |path| {
        if path.ends_with("/manifests/1") {
            return Answer::of(tagged.clone());
        }
        let blob = blobs.iter().find(|(digest, _)| path.ends_with(digest));
        blob.map_or(Answer::status(404), |(_, answer)| answer.clone())
    })
}

/// A registry of an image whose layers are given with their media types.
pub(crate) fn serve_layers(layers: &[(&str, Vec<u8>)]) -> ScriptedRegistry {
    let descriptors: Vec<Value> = layers
        .iter()
        .map(|(media_type, layer)| descriptor(media_type, layer))
        .collect();
    let blobs = layers
        .iter()
        .map(|(_, layer)| (sha256(layer), Answer::of(layer.clone())));
    serve(manifest_of(&descriptors), blobs.collect())
}

/// The files below a directory.
pub(crate) fn files_below(directory: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(current) = directories.pop() {
        for entry in fs::read_dir(current).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type().unwrap().is_dir() {
                true => directories.push(path),
                false => {
                    let below = path.strip_prefix(directory).unwrap();
                    files.push(text(below).to_owned());
                }
            }
        }
    }
    files.sort();
    files
}

#[track_caller]
pub(crate) fn assert_outcome(
    row: &str,
    root: &Path,
    pulled: &ProgramOutput,
    expected: &Expected<'_>,
) {
    let written = files_below(root);
    match expected {
        Expected::Files(files) => {
            assert_eq!(pulled.code, 0, "{row}: {}", pulled.err);
            let files: Vec<_> = files.iter().map(|file| format!("into/{file}")).collect();
            assert_eq!(written, files, "{row}");
        }
        Expected::Refused(code, part) => {
            assert!(pulled.err.contains(part), "{row}: {}", pulled.err);
            assert_eq!(pulled.code, *code, "{row}: {}", pulled.err);
            assert_eq!(written, Vec::<String>::new(), "{row}");
            assert_eq!(pulled.err.lines().count(), 1, "{row}: {}", pulled.err);
            assert!(
                pulled.err.len() <= MAX_ERROR,
                "{row}: {} bytes",
                pulled.err.len()
            );
            let has_control = |text: &str| text.trim_end().contains(char::is_control);
            assert!(!has_control(&pulled.err), "{row}: {:?}", pulled.err);
            assert!(!pulled.err.contains('\u{202e}'), "{row}: {:?}", pulled.err);
        }
    }
}

/// Pulls into a directory of its own and checks what was written.
#[track_caller]
pub(crate) fn check(
    row: &str,
    registry: &ScriptedRegistry,
    reference: &str,
    expected: &Expected<'_>,
) {
    let temp_dir = tempfile::tempdir().unwrap();
    let into = temp_dir.path().join("into");
    let pulled = pull_within("120", registry, &into, reference);
    assert_outcome(row, temp_dir.path(), &pulled, expected);
}
