//! qcow2 images that hold the bitmaps of changed blocks; their data lie in another file, which stays as it is.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use super::create_qcow2_image::{PendingQcow2Image, Qcow2Image};
use super::pending_image::PendingImage;
use super::{DiskError, DiskTools, qemu_img};
use crate::blocking;

/// KubeVirt's: large clusters keep the tables small.
const OPTIONS: &str = "data_file_raw=on,cluster_size=256k";
const MODE: u32 = 0o640;
const SIZE_TIMEOUT: Duration = Duration::from_secs(10);
/// Tables for every part of the disk are written, which takes a while for a large one.
const QEMU_IMG_TIMEOUT: Duration = Duration::from_secs(30);

/// Makes the image at `path` for the data at `data`, unless it is there.
///
/// `qemu-img create` empties the data file of an image. So it gets a temporary data file, and `qemu-img amend` sets the
/// right one afterwards.
pub(super) async fn create(
    volume: &str,
    path: &str,
    data: &Path,
    tools: &DiskTools,
) -> Result<(), DiskError> {
    let Some(image) = Qcow2Image::new(path, MODE).begin(tools).await? else {
        return Ok(());
    };
    let tools = &DiskTools {
        cpu_limit: QEMU_IMG_TIMEOUT,
        deadline: QEMU_IMG_TIMEOUT,
        ..tools.clone()
    };
    let size = size(volume, data).await?.to_string();
    let stand_in = PendingImage::begin(format!("{path}.data").into()).await?;
    let options = format!("{OPTIONS},data_file={}", escaped(stand_in.path()));
    let options = ["-o".into(), options.into()];
    image.make(&options, &[size.into()], tools).await?;
    point_to(data, &image, tools).await?;
    stand_in.discard().await?;
    image.commit().await
}

async fn point_to(
    data: &Path,
    image: &PendingQcow2Image,
    tools: &DiskTools,
) -> Result<(), DiskError> {
    let path = image.path();
    let option = format!("data_file={}", escaped(data));
    let arguments = ["-q", "-f", "qcow2", "-o", &option].map(std::ffi::OsStr::new);
    let arguments = arguments.into_iter().chain([path.as_os_str()]);
    qemu_img::run(tools, "amend", path, &arguments.collect::<Vec<_>>()).await?;
    Ok(())
}

/// What the guest sees of the data: a file's length, a device's size.
async fn size(volume: &str, data: &Path) -> Result<u64, DiskError> {
    let path = data.to_owned();
    let look = move || File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0)));
    let size = blocking::file_call("asking for an image's size", SIZE_TIMEOUT, look).await?;
    size.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => DiskError::MissingImage {
            volume: volume.to_owned(),
            path: data.to_owned(),
        },
        _ => DiskError::io("asking for the size of", data, source),
    })
}

/// A comma ends an option unless it is doubled.
fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::process::Command;

    use super::*;

    #[tokio::test]
    async fn image_shows_the_data_file_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let text = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let (data, image) = (text("disk,img"), text("cbt/vol.qcow2"));
        let mut content = vec![7; 3 << 20];
        content.extend([9; 512]);
        fs::write(&data, &content).unwrap();
        let tools = DiskTools::new(2_097_152_000);
        fs::create_dir(directory.path().join("cbt")).unwrap();
        for left in ["cbt/vol.qcow2.1-0.part", "cbt/vol.qcow2.data.1-1.part"] {
            fs::write(text(left), "cut short").unwrap();
        }
        for _ in 0..2 {
            create("vol", &image, Path::new(&data), &tools)
                .await
                .unwrap();
        }
        assert_eq!(fs::read(&data).unwrap(), content);
        assert_eq!(
            fs::read_dir(directory.path().join("cbt")).unwrap().count(),
            1
        );
        let raw_image = text("seen");
        let convert = ["convert", "-f", "qcow2", "-O", "raw", &image, &raw_image];
        let converted = Command::new("qemu-img").args(convert).status().unwrap();
        assert!(converted.success());
        assert_eq!(fs::read(raw_image).unwrap(), content);
        let info = Command::new("qemu-img")
            .args(["info", &image])
            .output()
            .unwrap();
        let info = String::from_utf8(info.stdout).unwrap();
        for fact in ["cluster_size: 262144", "data file raw: true", "disk,img"] {
            assert!(info.contains(fact), "{fact} in {info}");
        }
    }

    #[tokio::test]
    async fn error_contains_the_path_of_a_missing_data_file() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("vol.qcow2");
        let tools = DiskTools::new(2_097_152_000);
        let error = create(
            "vol",
            image.to_str().unwrap(),
            Path::new("/none/disk.img"),
            &tools,
        )
        .await
        .unwrap_err()
        .to_string();
        assert!(
            error.starts_with("volume vol: no image at /none/disk.img"),
            "{error}"
        );
    }
}
