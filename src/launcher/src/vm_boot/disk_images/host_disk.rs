//! Makes the raw images of hostDisks. Normally virt-handler makes missing images before it sends the VMI; a launcher
//! without a virt-handler makes them itself, by virt-handler's rules and defaults.

use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::DiskImageError;
use crate::atomic_file::{self, FileAttrs};

/// By how many percent the image may be smaller than requested: KubeVirt's `pvc-tolerate-less-space-up-to-percent`.
const TOLERANCE_PERCENT: u64 = 10;
/// Space that is kept free, in bytes: KubeVirt's `minimum-reserve-pvc-bytes`.
const RESERVED_BYTES: u64 = 131_072;
const MIB: u64 = 1024 * 1024;
const IMAGE_ATTRS: FileAttrs = FileAttrs {
    mode: 0o644,
    durable: true,
};

/// Makes a sparse image unless the file exists. Blocking.
pub(super) fn ensure(volume: &str, path: &Path, bytes: u64) -> Result<(), DiskImageError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => {
            atomic_file::remove_stale(path);
            require_file_or_device(volume, path, metadata.file_type())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(volume, path, bytes),
        Err(source) => Err(DiskImageError::io("looking at", path, source)),
    }
}

/// Checks the type of an existing path. A link is an error: the volume's content is not trusted, and a link could lead
/// anywhere in the pod.
fn require_file_or_device(volume: &str, path: &Path, kind: FileType) -> Result<(), DiskImageError> {
    let what = match kind {
        kind if kind.is_file() || kind.is_block_device() => return Ok(()),
        kind if kind.is_symlink() => "a link",
        kind if kind.is_dir() => "a directory",
        _ => "no file",
    };
    Err(DiskImageError::HostDiskNotAFile {
        volume: volume.to_owned(),
        path: path.to_owned(),
        what,
    })
}

fn create(volume: &str, path: &Path, bytes: u64) -> Result<(), DiskImageError> {
    atomic_file::create_parent(path)?;
    let directory = path.parent().unwrap_or(path);
    let available = available_space(directory)
        .map_err(|source| DiskImageError::io("reading the free space of", directory, source))?;
    let size = image_size(bytes, available).ok_or_else(|| DiskImageError::NotEnoughSpace {
        volume: volume.to_owned(),
        path: path.to_owned(),
        requested: bytes,
        available,
        tolerance: TOLERANCE_PERCENT,
    })?;
    if size < bytes {
        tracing::warn!(
            volume,
            "PV size too small: expected {bytes} B, found {size} B. Using it anyway, it is within {TOLERANCE_PERCENT} % toleration"
        );
    }
    Ok(atomic_file::write(path, IMAGE_ATTRS, |file| {
        file.set_len(size)
    })?)
}

/// The space that unprivileged users may use, without the reserved bytes.
fn available_space(directory: &Path) -> io::Result<u64> {
    let space = rustix::fs::statvfs(directory)?;
    Ok(space
        .f_bavail
        .saturating_mul(space.f_frsize)
        .saturating_sub(RESERVED_BYTES))
}

/// The size of an image for which `requested` bytes are requested; at most [`TOLERANCE_PERCENT`] less.
fn image_size(requested: u64, available: u64) -> Option<u64> {
    let least = requested / 100 * (100 - TOLERANCE_PERCENT);
    match available {
        available if available >= requested => Some(requested),
        available if available >= least.max(MIB) => Some(available - available % MIB),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn missing_image_is_made_and_an_existing_one_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data/disk.img");
        ensure("data", &path, 8 * MIB).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 8 * MIB);
        fs::write(&path, "the guest's").unwrap();
        // A launcher was killed when it made the image.
        let left = directory.path().join("data/disk.img.1-0.part");
        let file = fs::File::create(&left).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        ensure("data", &path, 8 * MIB).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"the guest's");
        assert!(!left.exists());
    }

    #[test]
    fn link_and_lack_of_space_are_errors() {
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
        fn image_fits_and_is_within_the_tolerance(requested in MIB.., available: u64) {
            match image_size(requested, available) {
                Some(size) => prop_assert!(size <= requested && size <= available && size + MIB > requested / 100 * 90),
                None => prop_assert!(available < requested),
            }
        }
    }
}
