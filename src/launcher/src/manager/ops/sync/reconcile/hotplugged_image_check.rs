//! Whether the image of a hotplugged volume can be attached. virt-handler mounts the image, so it can be missing or
//! unusable for a while.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::blocking;
use crate::manager::command_error::CommandError;
use crate::vm_boot::boot_resources::FILE_TIMEOUT;

/// Whether the file or device at `path` exists and can be opened: a device for reading, a file for reading and writing.
pub(super) async fn is_ready(path: &str) -> Result<bool, CommandError> {
    let owned = path.to_owned();
    let open = move || open(Path::new(&owned));
    let opened = blocking::file_call(
        "opening the image of a hotplugged volume",
        FILE_TIMEOUT,
        open,
    );
    match opened.await? {
        Ok(()) => Ok(true),
        Err(error) => {
            tracing::debug!(path, reason = %error, "the image of a hotplugged volume is not ready");
            Ok(false)
        }
    }
}

fn open(path: &Path) -> io::Result<()> {
    let kind = fs::metadata(path)?.file_type();
    // Opening a FIFO would wait for a writer.
    if kind.is_dir() || kind.is_fifo() || kind.is_socket() {
        return Err(io::Error::other("neither a file nor a device"));
    }
    let is_device = kind.is_block_device() || kind.is_char_device();
    File::options()
        .read(true)
        .write(!is_device)
        .open(path)
        .map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn missing_and_unusable_images_are_not_ready() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        fs::write(path("disk.img"), "data").unwrap();
        let fifo = std::process::Command::new("mkfifo")
            .arg(path("fifo"))
            .status()
            .unwrap();
        assert!(fifo.success());
        assert!(is_ready(&path("disk.img")).await.unwrap());
        assert!(is_ready("/dev/null").await.unwrap());
        assert!(!is_ready(&path("missing.img")).await.unwrap());
        assert!(!is_ready(&path("fifo")).await.unwrap());
        assert!(!is_ready(&path("")).await.unwrap(), "a directory");
    }
}
