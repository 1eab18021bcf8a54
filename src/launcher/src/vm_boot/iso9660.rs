//! Writes small ISO 9660 images in memory, with Rock Ridge (the file names that Linux reads) and Joliet (those that
//! Windows reads).

use std::io::Cursor;
use std::sync::Arc;

use hadris_iso::joliet::JolietLevel;
use hadris_iso::read::PathSeparator;
use hadris_iso::rrip::RripOptions;
use hadris_iso::write::options::{BaseIsoLevel, CreationFeatures, IsoFormatOptions};
use hadris_iso::write::{
    InputEntry, InputEntryKind, InputMetadata, InputTree, IsoCreationError, IsoImageWriter,
};

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
    keep_within_blocks(&mut image)?;
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

// Moves continuation areas of Rock Ridge so that none crosses the end of a block.
//
// A file's attributes and name that do not fit into its directory record continue elsewhere, where an entry `CE`
// points. hadris-iso lays these areas out one after the other, without regard to blocks. Linux ignores a file
// whose area does not lie within one block (`rock: corrupted directory entry`). So areas that cross get a new place
// in blocks at the end of the image; the others stay. hadris-iso 3.0 (a release candidate now) does this itself, and
// makes this superfluous.

/// The first volume descriptor's sector, in every image.
const FIRST_DESCRIPTOR: usize = 16;
/// Offsets in a volume descriptor: the number of blocks of the volume, and the root directory's record.
const VOLUME_BLOCKS: usize = 80;
const ROOT_RECORD: usize = 156;
/// Offsets in a directory record: what it points to, its flags, and its name's length, which the name follows.
const EXTENT: usize = 2;
const EXTENT_BYTES: usize = 10;
const FLAGS: usize = 25;
const NAME_LENGTH: usize = 32;
const DIRECTORY_FLAG: u8 = 2;
/// Offsets in an entry `CE`: the area's block, where in that block it begins, and its length.
const AREA_BLOCK: usize = 4;
const AREA_OFFSET: usize = 12;
const AREA_LENGTH: usize = 20;
const CE_BYTES: usize = 28;

/// The image is not laid out as ISO 9660 and Rock Ridge demand, or has an area that no block can hold.
#[derive(Debug, thiserror::Error)]
#[error("the layout is invalid at byte {at}")]
pub struct InvalidLayout {
    /// Where in the image.
    at: usize,
}

/// Moves every continuation area that crosses the end of a block to a new block at the end of the image.
///
/// # Errors
/// [`InvalidLayout`].
fn keep_within_blocks(image: &mut Vec<u8>) -> Result<(), InvalidLayout> {
    let before = image.len();
    for entry in continuation_entries(image)? {
        let area = area(image, entry)?;
        if area.offset + area.length > SECTOR {
            relocate(image, entry, &area)?;
        }
    }
    image.resize(image.len().next_multiple_of(SECTOR), 0);
    if image.len() > before {
        set_volume_blocks(image)?;
    }
    Ok(())
}

/// Where a continuation area lies: `offset` bytes after the beginning of `block`.
struct ContinuationArea {
    block: usize,
    offset: usize,
    length: usize,
}

/// The area that the entry `CE` at this place of the image points to.
fn area(image: &[u8], entry: usize) -> Result<ContinuationArea, InvalidLayout> {
    Ok(ContinuationArea {
        block: read_number(image, entry + AREA_BLOCK)?,
        offset: read_number(image, entry + AREA_OFFSET)?,
        length: read_number(image, entry + AREA_LENGTH)?,
    })
}

/// The places of all entries `CE` of the primary directory tree, which is the one with Rock Ridge.
fn continuation_entries(image: &[u8]) -> Result<Vec<usize>, InvalidLayout> {
    let mut entries = Vec::new();
    let mut directories = vec![FIRST_DESCRIPTOR * SECTOR + ROOT_RECORD];
    while let Some(directory) = directories.pop() {
        let start = read_number(image, directory + EXTENT)? * SECTOR;
        let end = start + read_number(image, directory + EXTENT_BYTES)?;
        let mut at = start;
        while at < end {
            let length = usize::from(read_byte(image, at)?);
            if length == 0 {
                // Records do not cross the end of a block either: zeros fill it.
                at = (at + 1).next_multiple_of(SECTOR);
                continue;
            }
            let name_length = usize::from(read_byte(image, at + NAME_LENGTH)?);
            let name = at + NAME_LENGTH + 1;
            // The name `\0` is the directory itself, `\x01` its parent.
            let is_child = name_length != 1 || read_byte(image, name)? > 1;
            if is_child && read_byte(image, at + FLAGS)? & DIRECTORY_FLAG != 0 {
                directories.push(at);
            }
            // The system use area begins at an even offset of the record.
            let system_use = name + name_length + usize::from(name_length % 2 == 0);
            entries.extend(find_continuation(image, system_use, at + length)?);
            at += length;
        }
    }
    Ok(entries)
}

/// The entry `CE` of a system use area. Each entry has a signature of two letters, and its length.
fn find_continuation(
    image: &[u8],
    mut at: usize,
    end: usize,
) -> Result<Option<usize>, InvalidLayout> {
    while at + 4 <= end {
        let length = usize::from(read_byte(image, at + 2)?);
        if image.get(at..at + 2) == Some(b"CE") && length == CE_BYTES {
            return Ok(Some(at));
        }
        if length < 4 {
            break;
        }
        at += length;
    }
    Ok(None)
}

/// Copies the area to the end of the image, into its last block if that one is new and has room, and lets its entry
/// point there.
fn relocate(
    image: &mut Vec<u8>,
    entry: usize,
    area: &ContinuationArea,
) -> Result<(), InvalidLayout> {
    let start = area.block * SECTOR + area.offset;
    let content = match image.get(start..start + area.length) {
        Some(content) if area.length <= SECTOR => content.to_vec(),
        _ => return Err(InvalidLayout { at: entry }),
    };
    let used = image.len() % SECTOR;
    if used + content.len() > SECTOR {
        image.resize(image.len().next_multiple_of(SECTOR), 0);
    }
    let (block, offset) = (image.len() / SECTOR, image.len() % SECTOR);
    image.extend(content);
    write_number(image, entry + AREA_BLOCK, block)?;
    write_number(image, entry + AREA_OFFSET, offset)
}

/// Sets the volume's size in all volume descriptors (ISO 9660's and Joliet's) to the image's.
fn set_volume_blocks(image: &mut [u8]) -> Result<(), InvalidLayout> {
    const PRIMARY: u8 = 1;
    const SUPPLEMENTARY: u8 = 2;
    const LAST: u8 = 255;
    let blocks = image.len() / SECTOR;
    for descriptor in (FIRST_DESCRIPTOR..).map(|sector| sector * SECTOR) {
        match read_byte(image, descriptor)? {
            PRIMARY | SUPPLEMENTARY => write_number(image, descriptor + VOLUME_BLOCKS, blocks)?,
            LAST => break,
            _ => {}
        }
    }
    Ok(())
}

fn read_byte(image: &[u8], at: usize) -> Result<u8, InvalidLayout> {
    image.get(at).copied().ok_or(InvalidLayout { at })
}

/// A number of 32 bits that is written in both byte orders, little-endian first.
fn read_number(image: &[u8], at: usize) -> Result<usize, InvalidLayout> {
    let bytes = image.get(at..).and_then(|rest| rest.first_chunk());
    let number = bytes.map(|bytes| u32::from_le_bytes(*bytes));
    number
        .and_then(|number| usize::try_from(number).ok())
        .ok_or(InvalidLayout { at })
}

fn write_number(image: &mut [u8], at: usize, number: usize) -> Result<(), InvalidLayout> {
    let invalid = InvalidLayout { at };
    let (Ok(number), Some(place)) = (u32::try_from(number), image.get_mut(at..at + 8)) else {
        return Err(invalid);
    };
    let (little, big) = place.split_at_mut(4);
    little.copy_from_slice(&number.to_le_bytes());
    big.copy_from_slice(&number.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests;
