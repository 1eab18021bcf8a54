//! Expands disk images to the capacity of their claims before the guest starts.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use domain::disk_expansion::ImageExpansion;
use domain::driver_modes::DirectIoProbe;

use super::qemu_img::qcow2_size;
use super::{DiskImageError, DiskTools, DriverModeProbe, qemu_img};
use crate::blocking;

/// How long reading the size of an image may take.
const SIZE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long `qemu-img resize` may take. All new blocks of a preallocated image are allocated, which takes long on a
/// slow file system.
const RESIZE_TIMEOUT: Duration = Duration::from_secs(60);

/// Expands images. An image that cannot be expanded is left unchanged, with a warning, and the guest boots.
pub(crate) async fn expand(expansions: &[ImageExpansion], tools: &DiskTools) {
    for expansion in expansions {
        if let Err(error) = expand_one(expansion, tools).await {
            tracing::warn!(volume = expansion.volume, reason = %error, "the disk image is not expanded");
        }
    }
}

/// The size in bytes that the claim and the file system allow for a disk on a file. Blocking.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn possible_size(expansion: &ImageExpansion) -> io::Result<Option<u64>> {
    let space = DiskSpace::read(expansion.path.as_ref(), expansion.data.as_ref())?;
    Ok(expansion.size(space.usable))
}

async fn expand_one(expansion: &ImageExpansion, tools: &DiskTools) -> Result<(), DiskImageError> {
    let (path, data) = (expansion.path.clone(), expansion.data.clone());
    let read_space = move || {
        let space = DiskSpace::read(Path::new(&path), Path::new(&data))?;
        Ok::<_, io::Error>((space, DriverModeProbe.preallocated(&path)))
    };
    let (space, is_preallocated) =
        match blocking::file_call("looking at a disk image", SIZE_TIMEOUT, read_space).await? {
            Ok(space) => space,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => {
                return Err(DiskImageError::io(
                    "looking at",
                    expansion.data.as_ref(),
                    source,
                ));
            }
        };
    match expansion.size(space.usable) {
        Some(size) if size > space.size => resize(expansion, size, is_preallocated, tools).await,
        _ => Ok(()),
    }
}

async fn resize(
    expansion: &ImageExpansion,
    size: u64,
    is_preallocated: bool,
    tools: &DiskTools,
) -> Result<(), DiskImageError> {
    let tools = &DiskTools {
        cpu_limit: RESIZE_TIMEOUT,
        deadline: RESIZE_TIMEOUT,
        ..tools.clone()
    };
    let preallocation = if is_preallocated { "falloc" } else { "off" };
    let (preallocation, size) = (format!("--preallocation={preallocation}"), size.to_string());
    let path = expansion.path.as_str();
    let arguments = ["-q", "-f", &expansion.format, &preallocation, path, &size];
    qemu_img::run(tools, "resize", path.as_ref(), &arguments.map(OsStr::new)).await?;
    tracing::info!(volume = expansion.volume, size, "disk image expanded");
    Ok(())
}

/// The size of a disk, and the space that it could use.
struct DiskSpace {
    /// The size that the guest sees, in bytes. If an image has a separate data file, an interrupted start may have
    /// expanded only one of the two.
    size: u64,
    /// The allocated size plus the free space of the file system, in bytes, if the file system reports it.
    usable: Option<u64>,
}

impl DiskSpace {
    fn read(image: &Path, data: &Path) -> io::Result<DiskSpace> {
        let metadata = fs::metadata(data)?;
        let image_size = match image == data {
            true => None,
            false => qcow2_size(image)?,
        };
        let usable = rustix::fs::statvfs(data).ok().map(|space| {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            free.saturating_add(metadata.blocks().saturating_mul(512))
        });
        Ok(DiskSpace {
            size: image_size.map_or(metadata.len(), |size| size.min(metadata.len())),
            usable,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    async fn size_after_expansion(image: &Path, capacity: u64) -> (u64, u64) {
        let text = image.to_str().unwrap().to_owned();
        let expansion = ImageExpansion {
            volume: "vol".into(),
            path: text.clone(),
            format: "raw".into(),
            data: text,
            capacity,
            overhead: 0.1,
        };
        expand(&[expansion], &DiskTools::new(2_097_152_000)).await;
        let metadata = fs::metadata(image).unwrap();
        (metadata.len(), metadata.blocks() * 512)
    }

    #[tokio::test]
    async fn image_grows_and_never_shrinks() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("disk.img");
        let file = fs::File::create(&image).unwrap();
        file.set_len(4 * MIB).unwrap();
        assert_eq!(
            size_after_expansion(&image, 20 * MIB).await,
            (18 * MIB, 0),
            "sparse stays sparse"
        );
        assert_eq!(size_after_expansion(&image, 5 * MIB).await.0, 18 * MIB);
        assert_eq!(
            size_after_expansion(&image, 20 * MIB + 1).await.0,
            18 * MIB,
            "whole mebibytes"
        );
        // Preallocated stays preallocated.
        fs::write(&image, vec![1; 2 * MIB as usize]).unwrap();
        let (size, allocated) = size_after_expansion(&image, 10 * MIB).await;
        assert!(size == 9 * MIB && allocated >= size, "{size} {allocated}");
    }

    #[test]
    fn size_is_the_smaller_one_of_image_and_data_file() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let mut header = vec![0; 32];
        header[..4].copy_from_slice(b"QFI\xfb");
        header[24..].copy_from_slice(&(4 * MIB).to_be_bytes());
        fs::write(at("image"), header).unwrap();
        fs::write(at("data"), "").unwrap();
        for (data, expected) in [(8 * MIB, 4 * MIB), (2 * MIB, 2 * MIB)] {
            let file = fs::File::options().write(true).open(at("data")).unwrap();
            file.set_len(data).unwrap();
            assert_eq!(
                DiskSpace::read(&at("image"), &at("data")).unwrap().size,
                expected
            );
            assert_eq!(
                DiskSpace::read(&at("data"), &at("data")).unwrap().size,
                data
            );
        }
    }

    #[tokio::test]
    async fn missing_file_is_ignored_and_a_failure_of_qemu_img_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("disk.img");
        let tools = DiskTools {
            qemu_img: "/none/qemu-img".into(),
            ..DiskTools::new(2_097_152_000)
        };
        fs::write(&image, "").unwrap();
        let text = image.to_str().unwrap().to_owned();
        let mut expansion = ImageExpansion {
            volume: "vol".into(),
            path: text.clone(),
            format: "raw".into(),
            data: text,
            capacity: 8 * MIB,
            overhead: 0.0,
        };
        let error = expand_one(&expansion, &tools).await.unwrap_err();
        assert!(error.to_string().contains("/none/qemu-img"), "{error}");
        expansion.data = "/none/disk.img".into();
        expand_one(&expansion, &tools).await.unwrap();
    }
}
