//! Moves continuation areas of Rock Ridge so that none crosses the end of a block.
//!
//! A file's attributes and name that do not fit into its directory record continue elsewhere, where an entry `CE`
//! points. hadris-iso lays these areas out one after the other, without regard to blocks. Linux ignores a file
//! whose area does not lie within one block (`rock: corrupted directory entry`). So areas that cross get a new place
//! in blocks at the end of the image; the others stay. hadris-iso 3.0 (a release candidate now) does this itself, and
//! makes this file superfluous.

use super::SECTOR;

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
pub(super) fn keep_within_blocks(image: &mut Vec<u8>) -> Result<(), InvalidLayout> {
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
