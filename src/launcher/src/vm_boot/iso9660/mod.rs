//! Writes small ISO 9660 images in memory, with Rock Ridge (the file names that Linux reads) and Joliet (those that
//! Windows reads).

mod continuation_areas;

use std::io::Cursor;
use std::sync::Arc;

use hadris_iso::joliet::JolietLevel;
use hadris_iso::read::PathSeparator;
use hadris_iso::rrip::RripOptions;
use hadris_iso::write::options::{BaseIsoLevel, CreationFeatures, IsoFormatOptions};
use hadris_iso::write::{
    InputEntry, InputEntryKind, InputMetadata, InputTree, IsoCreationError, IsoImageWriter,
};

use self::continuation_areas::InvalidLayout;

/// Size of a sector in bytes.
const SECTOR: usize = 2048;
/// Maximum length of a volume label in ISO 9660. Joliet has 16 characters: Windows sees the first 16.
const MAX_LABEL: usize = 32;
/// Maximum length of a file name in Linux, in bytes. Joliet has 64 characters: Windows sees shorter, still distinct
/// names.
const MAX_NAME: usize = 255;
/// Maximum number of components of a path in ISO 9660: seven directories below the root, and a file.
const MAX_PARTS: usize = 8;
/// Mode of the files: in the guest only root can read them.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o755;

/// Files or a label that an image cannot hold.
#[derive(Debug, thiserror::Error)]
pub enum Iso9660Error {
    /// A path with more than eight components, with an empty component, `.` or `..`, with a component of more than 255
    /// bytes, or that two files share.
    #[error("{0:?} is not a path that the image can hold")]
    Path(String),
    /// A volume label that has more than 32 characters, or is not ASCII.
    #[error("{0:?} is not a volume label: at most 32 ASCII characters")]
    Label(String),
    /// The files exceed [`MAX_CONTENT_BYTES`].
    #[error("the files have {0} bytes, more than the {max} an image may have", max = MAX_CONTENT_BYTES)]
    TooLarge(usize),
    /// The ISO 9660 writer failed.
    #[error("no ISO 9660 image of these files: {0}")]
    Writer(#[from] IsoCreationError),
    /// The writer's image is invalid.
    #[error("no ISO 9660 image of these files: {0}")]
    Layout(#[from] InvalidLayout),
}

/// Maximum size of all files in bytes, since the image is made in memory.
pub(crate) const MAX_CONTENT_BYTES: usize = 64 * 1024 * 1024;

/// Makes an image of these files: pairs of a path without a leading slash, and content. All are dated now.
///
/// # Errors
/// [`Iso9660Error`] for names and sizes that do not fit.
pub(crate) fn image(label: &str, files: &[(&str, &[u8])]) -> Result<Vec<u8>, Iso9660Error> {
    if label.len() > MAX_LABEL || !label.is_ascii() {
        return Err(Iso9660Error::Label(label.to_owned()));
    }
    let size = files.iter().map(|(_, content)| content.len()).sum();
    if size > MAX_CONTENT_BYTES {
        return Err(Iso9660Error::TooLarge(size));
    }
    let entries = build_tree(files)?;
    let tree = InputTree {
        path_separator: PathSeparator::ForwardSlash,
        entries,
    };
    let writer = IsoImageWriter::create(Cursor::new(Vec::new()), tree, options(label))?;
    let mut image = writer.into_inner();
    continuation_areas::keep_within_blocks(&mut image)?;
    Ok(image)
}

fn options(label: &str) -> IsoFormatOptions {
    IsoFormatOptions {
        volume_name: label.to_owned(),
        system_id: Some("LINUX".to_owned()),
        volume_set_id: None,
        publisher_id: None,
        preparer_id: None,
        application_id: Some("VIRT-LAUNCHER".to_owned()),
        sector_size: SECTOR,
        features: CreationFeatures {
            filenames: BaseIsoLevel::Level2 {
                supports_lowercase: false,
                supports_rrip: true,
            },
            joliet: Some(JolietLevel::Level3),
            rock_ridge: Some(RripOptions {
                relocate_deep_dirs: false,
                ..RripOptions::default()
            }),
            ..CreationFeatures::default()
        },
        path_separator: PathSeparator::ForwardSlash,
        // Guests look for the label in lower case, which the standard does not allow.
        strict_charset: false,
    }
}

fn build_tree(files: &[(&str, &[u8])]) -> Result<Vec<InputEntry>, Iso9660Error> {
    let mut root = Vec::new();
    for (path, content) in files {
        let shallow = path.split('/').count() <= MAX_PARTS;
        let added = shallow
            .then(|| add_file(&mut root, path, content))
            .flatten();
        added.ok_or_else(|| Iso9660Error::Path((*path).to_owned()))?;
    }
    Ok(root)
}

/// Adds a file to the tree; `None` when the path has a component that is invalid or used already.
fn add_file(entries: &mut Vec<InputEntry>, path: &str, content: &[u8]) -> Option<()> {
    let (name, rest) = path
        .split_once('/')
        .map_or((path, None), |(name, rest)| (name, Some(rest)));
    if matches!(name, "" | "." | "..") || name.len() > MAX_NAME || name.contains('\0') {
        return None;
    }
    let existing = entries.iter().position(|entry| *entry.name == name);
    let Some(rest) = rest else {
        let file = InputEntryKind::File(content.to_vec());
        return existing
            .is_none()
            .then(|| entries.push(entry(name, file, FILE_MODE)));
    };
    let index = existing.unwrap_or_else(|| {
        let directory = InputEntryKind::Directory(Vec::new());
        entries.push(entry(name, directory, DIRECTORY_MODE));
        entries.len() - 1
    });
    match &mut entries[index].kind {
        InputEntryKind::Directory(children) => add_file(children, rest, content),
        _ => None,
    }
}

fn entry(name: &str, kind: InputEntryKind, mode: u32) -> InputEntry {
    InputEntry {
        name: Arc::new(name.to_owned()),
        kind,
        metadata: InputMetadata {
            mode: Some(mode),
            ..InputMetadata::default()
        },
    }
}

#[cfg(test)]
mod tests;
