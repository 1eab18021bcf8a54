//! Reads the block sizes of volumes, for disks that have the block sizes of their volume.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::{fs, io};

use domain::convert::BlockSizeLookup;
use domain::host_facts::BlockSizes;
use rustix::fs::{Mode, OFlags, ioctl_blkpbszget, ioctl_blksszget, major, minor, open, statfs};

/// Reads a volume's block sizes from the kernel.
pub(super) fn read(volume: &BlockSizeLookup) -> Result<BlockSizes, String> {
    let path = &volume.path;
    let sizes = match volume.is_block {
        true => read_device(path),
        false => read_file_system(path),
    };
    sizes.map_err(|error| format!("unable to get the block sizes of {path}: {error}"))
}

/// The block sizes of a file: those of its file system.
fn read_file_system(path: &str) -> io::Result<BlockSizes> {
    let size = u64::try_from(statfs(path)?.f_bsize).unwrap_or_default();
    Ok(BlockSizes {
        logical: size,
        physical: size,
        discard_granularity: size,
    })
}

fn read_device(path: &str) -> io::Result<BlockSizes> {
    // Without O_NONBLOCK, opening a named pipe in the place of the device would never return.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let device = File::from(open(path, flags, Mode::empty())?);
    let metadata = device.metadata()?;
    if !metadata.file_type().is_block_device() {
        return Err(io::Error::other("it is not a block device"));
    }
    Ok(BlockSizes {
        logical: ioctl_blksszget(device.as_fd())?.into(),
        physical: ioctl_blkpbszget(device.as_fd())?.into(),
        discard_granularity: discard_granularity(metadata.rdev())?,
    })
}

/// The discard granularity in bytes; 0 if the kernel does not report it.
fn discard_granularity(device: u64) -> io::Result<u64> {
    let queue = format!("/sys/dev/block/{}:{}/queue", major(device), minor(device));
    match fs::read_to_string(format!("{queue}/discard_granularity")) {
        Ok(text) => text.trim().parse().map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(path: &str, is_block: bool) -> BlockSizeLookup {
        BlockSizeLookup {
            path: path.into(),
            is_block,
        }
    }

    #[test]
    fn files_have_sizes_and_other_paths_give_errors() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("disk.img");
        fs::write(&file, "").unwrap();
        let sizes = read(&volume(file.to_str().unwrap(), false)).unwrap();
        assert!(sizes.logical.is_power_of_two() && sizes.logical == sizes.physical);
        let problem = read(&volume("/nonexistent", false)).unwrap_err();
        assert!(problem.contains("/nonexistent"), "{problem}");
        let problem = read(&volume("/dev/null", true)).unwrap_err();
        assert!(problem.contains("not a block device"), "{problem}");
    }
}
