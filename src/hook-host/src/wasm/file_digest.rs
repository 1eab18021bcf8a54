//! The sha256, and a fast checksum, of a whole file.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::unix::fs::FileExt;

use sha2::{Digest as _, Sha256};

/// The sha256 of a whole file in hexadecimal.
pub(super) fn digest(file: &File) -> io::Result<String> {
    let mut hasher = Sha256::new();
    for_each_chunk(file, |chunk| hasher.update(chunk))?;
    Ok(format!("{:x}", hasher.finalize()))
}

/// A checksum of the whole file that detects accidental damage, about ten times as fast as sha256.
/// It does not protect against an attacker; the check of the file's location does (`precompiled_file_trust`).
pub(super) fn checksum(file: &File) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    for_each_chunk(file, |chunk| hasher.write(chunk))?;
    Ok(format!("{:016x}", hasher.finish()))
}

/// Reads the file in small chunks, so that memory use does not depend on its size.
fn for_each_chunk(file: &File, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    let mut offset = 0;
    loop {
        match file.read_at(&mut buffer, offset) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                take(&buffer[..read]);
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
