//! Whether the image of a hotplugged volume can be attached. virt-handler mounts the image, so it can be missing or
//! unusable for a while.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use super::Wait;
use crate::blocking;
use crate::manager::command_error::CommandError;
use crate::vm_boot::boot_resources::FILE_TIMEOUT;

/// How long an image may be missing before that is reported. virt-handler mounts it within moments.
const MISSING_IMAGE_PATIENCE: Duration = Duration::from_secs(10);

/// How QEMU opens an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// For reading: a medium, or a disk that the guest cannot write.
    Read,
    /// For reading and writing.
    ReadWrite,
}

/// Why the file or device at `path` cannot be used; `None` if it can. A device is opened for reading, since it may be
/// busy otherwise; a file is opened as QEMU opens it.
pub(super) async fn why_not_ready(
    path: &str,
    access: Access,
) -> Result<Option<Wait>, CommandError> {
    let owned = path.to_owned();
    let open = move || open(Path::new(&owned), access);
    let opened = blocking::file_call(
        "opening the image of a hotplugged volume",
        FILE_TIMEOUT,
        open,
    );
    let Err(error) = opened.await? else {
        return Ok(None);
    };
    let purpose = match access {
        Access::Read => "reading",
        Access::ReadWrite => "reading and writing",
    };
    // Other errors do not end by themselves.
    let patience = match error.kind() {
        io::ErrorKind::NotFound => MISSING_IMAGE_PATIENCE,
        _ => Duration::ZERO,
    };
    Ok(Some(Wait {
        reason: format!("{path} cannot be opened for {purpose}: {error}"),
        patience,
    }))
}

fn open(path: &Path, access: Access) -> io::Result<()> {
    let kind = fs::metadata(path)?.file_type();
    // Opening a FIFO would wait for a writer.
    if kind.is_dir() || kind.is_fifo() || kind.is_socket() {
        return Err(io::Error::other("neither a file nor a device"));
    }
    let is_device = kind.is_block_device() || kind.is_char_device();
    File::options()
        .read(true)
        .write(access == Access::ReadWrite && !is_device)
        .open(path)
        .map(drop)
}

#[cfg(test)]
mod tests {
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
        let wait = async |path: &str| why_not_ready(path, Access::ReadWrite).await.unwrap();
        assert_eq!(wait(&path("disk.img")).await, None);
        assert_eq!(wait("/dev/null").await, None);
        let missing = wait(&path("missing.img")).await.unwrap();
        assert_eq!(missing.patience, MISSING_IMAGE_PATIENCE);
        for unusable in [path("fifo"), path("")] {
            let wait = wait(&unusable).await.unwrap();
            assert!(
                wait.reason.contains("neither a file nor a device"),
                "{wait:?}"
            );
            assert_eq!(wait.patience, Duration::ZERO, "it does not become ready");
        }
    }

    /// A program that runs cannot be opened for writing, by root either.
    #[tokio::test]
    async fn image_that_cannot_be_written_is_ready_for_a_medium_and_not_for_a_disk() {
        let program = std::env::current_exe().unwrap();
        let program = program.to_str().unwrap();
        let medium = why_not_ready(program, Access::Read).await.unwrap();
        assert_eq!(medium, None);
        let disk = why_not_ready(program, Access::ReadWrite).await.unwrap();
        let reason = disk.unwrap().reason;
        assert!(
            reason.contains(" cannot be opened for reading and writing: Text file busy"),
            "{reason}"
        );
    }
}
