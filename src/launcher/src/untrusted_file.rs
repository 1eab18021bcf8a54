//! Opens files in directories whose content is not trusted: volumes, and directories to which QEMU can write.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

/// Opens an image, or another file of a volume, for reading. Links are followed.
///
/// # Errors
/// Also if the path is neither a file nor a block device: opening a named pipe would wait for a writer for ever.
pub(crate) fn open_image(path: &Path) -> io::Result<File> {
    let file = open_with(path, OFlags::empty())?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_block_device() {
        return Ok(file);
    }
    let message = "it is neither a file nor a block device";
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Opens a file, to set its mode and owner. A link is an error.
pub(crate) fn open_without_links(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::NOFOLLOW)
}

fn open_with(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty())?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_pipe_and_directory_are_no_images() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("disk.img");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            Mode::RUSR,
            0,
        )
        .unwrap();
        for path in [&pipe, directory.path()] {
            let error = open_image(path).unwrap_err().to_string();
            assert!(
                error.contains("neither a file nor a block device"),
                "{error}"
            );
        }
    }

    #[test]
    fn link_is_followed_to_an_image_only() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        open_image(&link).unwrap();
        open_without_links(&file).unwrap();
        open_without_links(&link).unwrap_err();
    }
}
