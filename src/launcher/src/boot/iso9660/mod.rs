//! ISO 9660 images with Rock Ridge (Linux reads these names) and Joliet (Windows reads these).
//! Small ones: everything is in memory.

use std::io::Cursor;
use std::sync::Arc;

use hadris_iso::joliet::JolietLevel;
use hadris_iso::read::PathSeparator;
use hadris_iso::rrip::RripOptions;
use hadris_iso::write::options::{BaseIsoLevel, CreationFeatures, IsoFormatOptions};
use hadris_iso::write::{
    InputEntry, InputEntryKind, InputMetadata, InputTree, IsoCreationError, IsoImageWriter,
};

/// Bytes of a sector.
const SECTOR: usize = 2048;
/// What ISO 9660 has room for. Joliet has 16 characters, and Windows sees the first ones.
const MAX_LABEL: usize = 32;
/// What Linux has room for. Joliet has 64 characters, and Windows sees shorter names, still distinct.
const MAX_NAME: usize = 255;
/// What ISO 9660 has room for: seven directories below the root and a file.
const MAX_PARTS: usize = 8;
/// In the guest, only root can read the files.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o755;

/// Content that fits no image.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// A path beyond eight parts, with an empty part, `.` or `..`, a part beyond 255 bytes, or one that
    /// two files share.
    #[error("{0:?} is not a path that the image can hold")]
    Path(String),
    /// A volume label of more than 32 characters, or not ASCII.
    #[error("{0:?} is not a volume label: at most 32 ASCII characters")]
    Label(String),
    /// More than this process is to hold in memory.
    #[error("the files have {0} bytes, more than the {max} an image may have", max = MAX_CONTENT)]
    TooLarge(usize),
    /// The writer refuses.
    #[error("no ISO 9660 image of these files: {0}")]
    Writer(#[from] IsoCreationError),
}

/// The most that all files together may have, in bytes.
pub(crate) const MAX_CONTENT: usize = 64 * 1024 * 1024;

/// An image of these files (path without a leading slash, content), all dated now.
///
/// # Errors
/// [`FormatError`] for names and sizes that do not fit.
pub(crate) fn image(label: &str, files: &[(&str, &[u8])]) -> Result<Vec<u8>, FormatError> {
    if label.len() > MAX_LABEL || !label.is_ascii() {
        return Err(FormatError::Label(label.to_owned()));
    }
    let size = files.iter().map(|(_, content)| content.len()).sum();
    if size > MAX_CONTENT {
        return Err(FormatError::TooLarge(size));
    }
    let entries = entries(files)?;
    let tree = InputTree {
        path_separator: PathSeparator::ForwardSlash,
        entries,
    };
    let image = IsoImageWriter::create(Cursor::new(Vec::new()), tree, options(label))?;
    Ok(image.into_inner())
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
        // Guests look for the label in small letters.
        strict_charset: false,
    }
}

fn entries(files: &[(&str, &[u8])]) -> Result<Vec<InputEntry>, FormatError> {
    let mut root = Vec::new();
    for (path, content) in files {
        let shallow = path.split('/').count() <= MAX_PARTS;
        let added = shallow.then(|| add(&mut root, path, content)).flatten();
        added.ok_or_else(|| FormatError::Path((*path).to_owned()))?;
    }
    Ok(root)
}

/// `None` when the path has a part that does not fit or that is taken.
fn add(entries: &mut Vec<InputEntry>, path: &str, content: &[u8]) -> Option<()> {
    let (name, rest) = path
        .split_once('/')
        .map_or((path, None), |(name, rest)| (name, Some(rest)));
    if matches!(name, "" | "." | "..") || name.len() > MAX_NAME || name.contains('\0') {
        return None;
    }
    let known = entries.iter().position(|entry| *entry.name == name);
    let Some(rest) = rest else {
        let file = InputEntryKind::File(content.to_vec());
        return known
            .is_none()
            .then(|| entries.push(entry(name, file, FILE_MODE)));
    };
    let index = known.unwrap_or_else(|| {
        let directory = InputEntryKind::Directory(Vec::new());
        entries.push(entry(name, directory, DIRECTORY_MODE));
        entries.len() - 1
    });
    match &mut entries[index].kind {
        InputEntryKind::Directory(children) => add(children, rest, content),
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
