//! Raw images of hostDisks. virt-handler makes missing ones before it sends the VMI; a launcher without a
//! virt-handler makes them itself, by virt-handler's rules and defaults.

use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::DiskError;
use crate::atomic_file::{self, FileAttrs};

/// `pvc-tolerate-less-space-up-to-percent`.
const TOLERANCE: u64 = 10;
/// `minimum-reserve-pvc-bytes`.
const RESERVE: u64 = 131_072;
const MIB: u64 = 1024 * 1024;
const IMAGE_ATTRS: FileAttrs = FileAttrs {
    mode: 0o644,
    durable: true,
};

/// Makes a sparse image unless one is there. Blocking.
pub(super) fn ensure(volume: &str, path: &Path, bytes: u64) -> Result<(), DiskError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => require_image(volume, path, metadata.file_type()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(volume, path, bytes),
        Err(source) => Err(DiskError::io("looking at", path, source)),
    }
}

/// Refuses links: the volume's content is not trusted, and a link could lead anywhere in the pod.
fn require_image(volume: &str, path: &Path, kind: FileType) -> Result<(), DiskError> {
    let what = match kind {
        kind if kind.is_file() || kind.is_block_device() => return Ok(()),
        kind if kind.is_symlink() => "a link",
        kind if kind.is_dir() => "a directory",
        _ => "no file",
    };
    Err(DiskError::NoHostDisk {
        volume: volume.to_owned(),
        path: path.to_owned(),
        what,
    })
}

fn make(volume: &str, path: &Path, bytes: u64) -> Result<(), DiskError> {
    atomic_file::create_parent(path)?;
    let directory = path.parent().unwrap_or(path);
    let free = free(directory)
        .map_err(|source| DiskError::io("asking for the room in", directory, source))?;
    let size = size(bytes, free).ok_or_else(|| DiskError::NoRoom {
        volume: volume.to_owned(),
        path: path.to_owned(),
        asked: bytes,
        free,
        tolerance: TOLERANCE,
    })?;
    if size < bytes {
        tracing::warn!(
            volume,
            "PV size too small: expected {bytes} B, found {size} B. Using it anyway, it is within {TOLERANCE} % toleration"
        );
    }
    Ok(atomic_file::write(path, IMAGE_ATTRS, |file| {
        file.set_len(size)
    })?)
}

/// What unprivileged users may still write, without the reserve; in bytes.
fn free(directory: &Path) -> io::Result<u64> {
    let room = rustix::fs::statvfs(directory)?;
    Ok(room
        .f_bavail
        .saturating_mul(room.f_frsize)
        .saturating_sub(RESERVE))
}

/// The size of an image for which `asked` bytes are wanted; a little less will do.
fn size(asked: u64, free: u64) -> Option<u64> {
    let least = asked / 100 * (100 - TOLERANCE);
    match free {
        free if free >= asked => Some(asked),
        free if free >= least.max(MIB) => Some(free - free % MIB),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn missing_image_is_made_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data/disk.img");
        ensure("data", &path, 8 * MIB).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 8 * MIB);
        fs::write(&path, "the guest's").unwrap();
        ensure("data", &path, 8 * MIB).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"the guest's");
    }

    #[test]
    fn link_and_lack_of_space_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("disk.img");
        symlink("/etc/passwd", &link).unwrap();
        let error = ensure("data", &link, MIB).unwrap_err().to_string();
        assert!(
            error.contains("volume data: /") && error.contains("disk.img is a link"),
            "{error}"
        );
        let large = ensure("data", &directory.path().join("large.img"), 1 << 62);
        let error = large.unwrap_err().to_string();
        assert!(
            error.contains("large.img, not enough space, demanded size 4611686018427387904 B"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn image_fits_and_is_within_the_tolerance(asked in MIB.., free: u64) {
            match size(asked, free) {
                Some(size) => prop_assert!(size <= asked && size <= free && size + MIB > asked / 100 * 90),
                None => prop_assert!(free < asked),
            }
        }
    }
}
