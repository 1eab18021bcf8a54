//! Rock Ridge: POSIX names, modes and owners in the system use area of directory records.

use super::fields::{both32, byte};

/// The image is the guest's alone; whoever is root there reads it.
const FILE_MODE: u32 = 0o100_600;
const DIRECTORY_MODE: u32 = 0o040_755;
/// What RRIP 1.09 prescribes, letter for letter.
const IDENTIFIER: &[u8] = b"RRIP_1991A";
const DESCRIPTION: &[u8] =
    b"THE ROCK RIDGE INTERCHANGE PROTOCOL PROVIDES SUPPORT FOR POSIX FILE SYSTEM SEMANTICS";
const SOURCE: &[u8] = b"PLEASE CONTACT DISC PUBLISHER FOR SPECIFICATION SOURCE.  SEE PUBLISHER IDENTIFIER IN PRIMARY VOLUME DESCRIPTOR FOR CONTACT INFORMATION.";

/// What a file's record says.
pub(super) fn file(name: &str) -> Vec<u8> {
    [attributes(FILE_MODE, 1), alternate_name(name)].concat()
}

/// What the record of a directory in its parent says; `links` is two and one for each subdirectory.
pub(super) fn directory(name: &str, links: u32) -> Vec<u8> {
    [attributes(DIRECTORY_MODE, links), alternate_name(name)].concat()
}

/// What a directory's records of itself and of its parent say.
pub(super) fn own(links: u32) -> Vec<u8> {
    attributes(DIRECTORY_MODE, links)
}

/// What the root's record of itself says: that there is Rock Ridge, and where to read which.
pub(super) fn root(links: u32, continuation: u32) -> Vec<u8> {
    let present = entry(*b"SP", &[0xbe, 0xef, 0]);
    let length = u32::from(byte(self::continuation().len()));
    let more = [both32(continuation), both32(0), both32(length)].concat();
    [present, own(links), entry(*b"CE", &more)].concat()
}

/// The announcement is too long for a directory record, so it has a sector of its own.
pub(super) fn continuation() -> Vec<u8> {
    let lengths = [
        byte(IDENTIFIER.len()),
        byte(DESCRIPTION.len()),
        byte(SOURCE.len()),
        1,
    ];
    entry(
        *b"ER",
        &[&lengths, IDENTIFIER, DESCRIPTION, SOURCE].concat(),
    )
}

fn attributes(mode: u32, links: u32) -> Vec<u8> {
    entry(
        *b"PX",
        &[both32(mode), both32(links), both32(0), both32(0)].concat(),
    )
}

fn alternate_name(name: &str) -> Vec<u8> {
    entry(*b"NM", &[&[0], name.as_bytes()].concat())
}

fn entry(signature: [u8; 2], data: &[u8]) -> Vec<u8> {
    let mut bytes = signature.to_vec();
    bytes.extend([byte(data.len() + 4), 1]);
    bytes.extend(data);
    bytes
}
