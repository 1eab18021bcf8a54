//! Makes the downward metrics disk, from which the guest reads metrics of its node. The launcher makes a disk without
//! metrics; virt-handler writes metrics to it while the guest runs. The format is vhostmd's, the metrics are XML.

use std::io::Write;
use std::path::Path;

use crate::atomic_file::{self, AtomicFileError, FileAttrs};

/// Size of the disk in bytes. virt-handler writes no more than this.
const DISK_BYTES: u64 = 256 * 1024;
const SIGNATURE: [u8; 4] = *b"mvbd";
const NO_METRICS: &[u8] = b"<metrics></metrics>\n";
const DISK_ATTRS: FileAttrs = FileAttrs {
    mode: 0o644,
    durable: false,
};

/// Writes the disk. Blocking.
pub(super) fn create(path: &Path) -> Result<(), AtomicFileError> {
    atomic_file::write(path, DISK_ATTRS, |file| {
        file.write_all(&header(NO_METRICS))?;
        file.write_all(NO_METRICS)?;
        file.set_len(DISK_BYTES)
    })
}

/// The header: signature, 0 for "not being written", sum of the body's bytes, length of the body; each number is a
/// big-endian `u32`.
fn header(body: &[u8]) -> Vec<u8> {
    let sum = body.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let mut header = SIGNATURE.to_vec();
    for number in [0, sum, length] {
        header.extend(number.to_be_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_disk_has_no_metrics() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vhostmd0");
        create(&path).unwrap();
        let disk = std::fs::read(&path).unwrap();
        assert_eq!(disk.len() as u64, DISK_BYTES);
        let number = |at: usize| u32::from_be_bytes(disk[at..at + 4].try_into().unwrap());
        assert_eq!((&disk[..4], number(4)), (b"mvbd".as_slice(), 0));
        let body = &disk[16..16 + number(12) as usize];
        assert_eq!(body, NO_METRICS);
        assert_eq!(
            number(8),
            body.iter().map(|byte| u32::from(*byte)).sum::<u32>()
        );
    }
}
