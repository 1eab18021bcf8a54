//! Makes qcow2 images that hold the bitmaps of changed blocks. The guest's data are in another file, which does not
//! change.

use std::io::{self, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use super::qemu_img::{PendingImage, PendingQcow2Image, Qcow2Image};
use super::{DiskImageError, DiskTools, qemu_img};
use crate::{blocking, untrusted_file};

/// KubeVirt's options. Large clusters keep the tables small.
const QCOW2_OPTIONS: &str = "data_file_raw=on,cluster_size=256k";
const IMAGE_MODE: u32 = 0o640;
/// How long reading the size of the data file may take.
const SIZE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one run of qemu-img may take. It writes tables for every part of the disk, which takes long for a large
/// disk.
const QEMU_IMG_TIMEOUT: Duration = Duration::from_secs(30);

/// Makes the image at `path` for the data file `data`, unless the image exists.
///
/// `qemu-img create` empties the data file of an image. So the image is created with a temporary data file, and
/// `qemu-img amend` sets the real one afterwards.
pub(super) async fn create(
    volume: &str,
    path: &str,
    data: &Path,
    tools: &DiskTools,
) -> Result<(), DiskImageError> {
    let Some(image) = Qcow2Image::new(path, IMAGE_MODE).start(tools).await? else {
        return Ok(());
    };
    let tools = &DiskTools {
        cpu_limit: QEMU_IMG_TIMEOUT,
        deadline: QEMU_IMG_TIMEOUT,
        ..tools.clone()
    };
    let size = data_size(volume, data).await?.to_string();
    let temporary_data = PendingImage::create(format!("{path}.data").into()).await?;
    let options = format!(
        "{QCOW2_OPTIONS},data_file={}",
        escape_commas(temporary_data.path())
    );
    let options = ["-o".into(), options.into()];
    image.run_create(&options, &[size.into()], tools).await?;
    set_data_file(data, &image, tools).await?;
    temporary_data.discard().await?;
    image.commit().await
}

async fn set_data_file(
    data: &Path,
    image: &PendingQcow2Image,
    tools: &DiskTools,
) -> Result<(), DiskImageError> {
    let path = image.path();
    let option = format!("data_file={}", escape_commas(data));
    let arguments = ["-q", "-f", "qcow2", "-o", &option].map(std::ffi::OsStr::new);
    let arguments = arguments.into_iter().chain([path.as_os_str()]);
    qemu_img::run(tools, "amend", path, &arguments.collect::<Vec<_>>()).await?;
    Ok(())
}

/// The size of the data file or device, in bytes.
async fn data_size(volume: &str, data: &Path) -> Result<u64, DiskImageError> {
    let path = data.to_owned();
    let seek = move || untrusted_file::open_image(&path)?.seek(SeekFrom::End(0));
    let size = blocking::file_call("asking for an image's size", SIZE_TIMEOUT, seek).await?;
    size.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => DiskImageError::MissingTrackedImage {
            volume: volume.to_owned(),
            path: data.to_owned(),
        },
        _ => DiskImageError::io("asking for the size of", data, source),
    })
}

/// Doubles the commas of a path: a single comma would end the option.
fn escape_commas(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[tokio::test]
    async fn image_has_the_content_of_the_unchanged_data_file() {
        let directory = tempfile::tempdir().unwrap();
        let text = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let (data, image) = (text("disk,img"), text("cbt/vol.qcow2"));
        let mut content = vec![7; 3 << 20];
        content.extend([9; 512]);
        fs::write(&data, &content).unwrap();
        let tools = DiskTools::new(2_097_152_000);
        fs::create_dir(directory.path().join("cbt")).unwrap();
        for stale in ["cbt/vol.qcow2.1-0.part", "cbt/vol.qcow2.data.1-1.part"] {
            fs::write(text(stale), "cut short").unwrap();
            let file = fs::File::options().write(true).open(text(stale)).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH)
                .unwrap();
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
    async fn named_pipe_in_place_of_the_data_file_is_an_error_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let (data, image) = (
            directory.path().join("disk.img"),
            directory.path().join("vol.qcow2"),
        );
        let (pipe, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, &data, pipe, mode, 0).unwrap();
        let tools = DiskTools::new(2_097_152_000);
        let created = create("vol", image.to_str().unwrap(), &data, &tools).await;
        let error = created.unwrap_err().to_string();
        let expected = format!(
            "asking for the size of {}: it is neither a file nor a block device",
            data.display()
        );
        assert_eq!(error, expected);
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
